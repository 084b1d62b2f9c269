#!/usr/bin/env python3
"""Tests on a real NVIDIA driver what an IMEX channel protects.

    hack/gpu-host.py [--cdi-gen PROGRAM] [--inject PROGRAM] [--runc PROGRAM]

Starts pairs of containers with runc. imex-cdi's example inject-bundle gives them channels. One container exports GPU
memory by a fabric handle, the other imports it (gpu-host/fabric_memory.py). Prints a table, and fails if the driver
does not behave as docs/isolation.md describes. Needs root, a GPU with a driver that has IMEX channels (major
nvidia-caps-imex-channels in /proc/devices), libcuda, runc, and two built programs, cdi-gen and inject-bundle. Writes
only to a temporary directory. For one row, it creates a device node on the host and removes it.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
KIND = "nvidia.com/imex-channel"
CHANNEL_DIR = pathlib.Path("/dev/nvidia-caps-imex-channels")
GPU_NODES = ["nvidia0", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools"]
REFUSED = "CUDA_ERROR_NOT_PERMITTED"
TIMEOUT = 90

# The channels of the exporter and of the importer, the channel that each opens (or None), and whether the importer
# reads the memory. "*": all channels of the driver.
PAIRS = [
    (["3"], ["3"], "channel3", "channel3", True),
    (["2047"], ["2047"], "channel2047", "channel2047", True),
    (["3"], ["0"], "channel3", None, False),
    (["0"], ["3"], "channel0", None, False),
    (["3"], [], "channel3", None, False),
    ([], ["3"], None, None, False),
    (["7", "3"], ["3"], "channel3", "channel3", True),
    (["7", "3"], ["7"], "channel3", None, False),
    (["*"], ["0"], "channel0", "channel0", True),
    (["5"], ["*"], "channel5", "channel5", True),
]


def run(*command, **options):
    return subprocess.run(list(map(str, command)), check=True, text=True, timeout=TIMEOUT, **options)


def major():
    for line in pathlib.Path("/proc/devices").read_text().splitlines():
        number, _, name = line.strip().partition(" ")
        if name == "nvidia-caps-imex-channels":
            return int(number)
    sys.exit("no nvidia-caps-imex-channels in /proc/devices: load a driver of R535 or newer, with IMEX channels")


class Bundles:
    """OCI bundles with the host's root, in a scratch directory."""

    def __init__(self, arguments, scratch):
        self.arguments, self.scratch, self.made = arguments, scratch, 0
        self.specs, self.shared = scratch / "cdi", scratch / "shared"
        self.specs.mkdir()
        self.shared.mkdir()
        self.shared.chmod(0o1777)
        channels = run(arguments.cdi_gen, "generate", "--channels", "all", stdout=subprocess.PIPE).stdout
        (self.specs / "channels.json").write_text(channels)
        self.names = [device["name"] for device in json.loads(channels)["devices"]]

    def start(self, side, file, channels, user_namespace=False):
        """Starts a container that exports or imports; finish() returns its output line."""
        self.made += 1
        bundle = self.scratch / f"bundle{self.made}"
        bundle.mkdir()
        run(self.arguments.runc, "spec", cwd=bundle)
        config = json.loads((bundle / "config.json").read_text())
        self.fill(config, side, file)
        if user_namespace:
            put_in_user_namespace(config)
        (bundle / "config.json").write_text(json.dumps(config))
        if channels:
            names = self.names if channels == ["*"] else [f"channel-{it}" for it in channels]
            names = [f"{KIND}={name}" for name in names]
            run(self.arguments.inject, "--cdi-dir", self.specs, bundle, *names, stdout=subprocess.DEVNULL)
        command = [self.arguments.runc, "run", f"gpu-host-{os.getpid()}-{self.made}"]
        return subprocess.Popen(list(map(str, command)), cwd=bundle, text=True, stdout=subprocess.PIPE)

    def fill(self, config, side, file):
        process = config["process"]
        program = HERE / "gpu-host" / "fabric_memory.py"
        process["terminal"] = False
        process["args"] = [os.path.realpath(sys.executable), str(program), side, str(file)]
        process["env"] = [f"{key}={os.environ[key]}" for key in ("PATH", "LD_LIBRARY_PATH") if key in os.environ]
        config["root"] = {"path": str(self.scratch / "root"), "readonly": True}
        config["mounts"].append({"destination": str(self.shared), "type": "bind", "source": str(self.shared), "options": ["rbind", "rw"]})
        linux = config["linux"]
        rules = linux.setdefault("resources", {}).setdefault("devices", [{"allow": False, "access": "rwm"}])
        for name in GPU_NODES:
            node = os.stat(f"/dev/{name}")
            numbers = {"type": "c", "major": os.major(node.st_rdev), "minor": os.minor(node.st_rdev)}
            linux.setdefault("devices", []).append({"path": f"/dev/{name}", "fileMode": 0o666, **numbers})
            rules.append({"allow": True, "access": "rw", **numbers})


def put_in_user_namespace(config):
    """Maps the container's root to an unprivileged user; device nodes are bind mounts from the host."""
    linux = config["linux"]
    linux["namespaces"].append({"type": "user"})
    for mapping in ("uidMappings", "gidMappings"):
        linux[mapping] = [{"containerID": 0, "hostID": 1000000, "size": 65536}]


@contextlib.contextmanager
def host_node(number):
    """Creates a channel's node on the host, for runtimes that cannot create it in the container."""
    path = CHANNEL_DIR / f"channel{number}"
    made_dir = not CHANNEL_DIR.exists()
    CHANNEL_DIR.mkdir(exist_ok=True)
    made = not path.exists()
    if made:
        os.mknod(path, 0o020666, os.makedev(major(), number))
        path.chmod(0o666)
    try:
        yield
    finally:
        if made:
            path.unlink()
        if made_dir:
            CHANNEL_DIR.rmdir()


def finish(container):
    output, _ = container.communicate(timeout=TIMEOUT)
    lines = output.splitlines()
    return json.loads(lines[-1]) if lines else {"outcome": f"runc ended with {container.returncode}", "opened": []}


def expected(result, channel, succeeds):
    """Whether a side's result matches PAIRS."""
    outcome = result["outcome"] == "done" if succeeds else result["outcome"].endswith(REFUSED)
    return outcome and result["opened"] == ([channel] if channel else [])


def pair(bundles, exporter, importer, first, second, shares, user_namespace=False):
    """Runs both containers at the same time and prints a row; whether it is as expected."""
    file = bundles.shared / f"handle{bundles.made}"
    out = bundles.start("export", file, exporter, user_namespace)
    if not first:
        result = finish(out)
        print(f"| {' '.join(exporter) or '-'} | {' '.join(importer) or '-'} | - | {result['outcome']} |")
        return expected(result, None, False)
    into = bundles.start("import", file, importer, user_namespace)
    exported, imported = finish(out), finish(into)
    opened = "/".join(" ".join(it["opened"]) or "-" for it in (exported, imported))
    outcome = "reads it" if imported["outcome"] == "done" else imported["outcome"]
    note = " (user namespaces)" if user_namespace else ""
    print(f"| {' '.join(exporter)}{note} | {' '.join(importer) or '-'} | {opened} | {outcome} |", flush=True)
    return expected(exported, first, True) and expected(imported, second, shares)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cdi-gen", default=HERE.parent / "target/debug/cdi-gen", type=pathlib.Path)
    parser.add_argument("--inject", default=HERE.parent / "target/debug/examples/inject-bundle", type=pathlib.Path)
    parser.add_argument("--runc", default=shutil.which("runc"))
    arguments = parser.parse_args()
    programs = [arguments.cdi_gen, arguments.inject]
    if os.geteuid() != 0 or not arguments.runc or not all(it.is_file() for it in programs):
        sys.exit(
            "needs root, runc (or --runc), cdi-gen (cargo build -p cdi-gen, or --cdi-gen) and inject-bundle "
            "(cargo build -p imex-cdi --features inject --example inject-bundle, or --inject)"
        )
    arguments.cdi_gen, arguments.inject = arguments.cdi_gen.resolve(), arguments.inject.resolve()
    major()
    version = pathlib.Path("/sys/module/nvidia/version").read_text().strip()
    gpu = run("nvidia-smi", "--query-gpu=name", "--format=csv,noheader", stdout=subprocess.PIPE).stdout.splitlines()[0]
    print(f"{gpu}, driver {version}\n\n| channels of the exporter | of the importer | opened | the importer |\n|---|---|---|---|")
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="gpu-host."))
    scratch.chmod(0o755)
    root = scratch / "root"
    root.mkdir()
    run("mount", "--rbind", "/", root)
    run("mount", "--make-rslave", root)
    try:
        bundles = Bundles(arguments, scratch)
        right = [pair(bundles, *row) for row in PAIRS]
        with host_node(3):
            spec = run(arguments.cdi_gen, "generate", "--channels", "3", "--mode", "host-path", stdout=subprocess.PIPE).stdout
            (bundles.specs / "channels.json").write_text(spec)
            right.append(pair(bundles, ["3"], ["3"], "channel3", "channel3", True, user_namespace=True))
    finally:
        run("umount", "--recursive", "--lazy", root)
        root.rmdir()  # Fails if the host's root is still mounted there, before rmtree could remove files of it.
        shutil.rmtree(scratch, ignore_errors=True)
    print(f"\n{sum(right)} of {len(right)} match docs/isolation.md")
    sys.exit(0 if all(right) else 1)


if __name__ == "__main__":
    main()
