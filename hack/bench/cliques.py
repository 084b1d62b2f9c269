#!/usr/bin/env python3
"""Measures the cost of daemons that join their cliques: hack/bench.sh cliques [--sizes N,N...]

The API server and compute-domain-controller are real. The daemons are simulated, with the requests of the real ones: a
list and a watch of the clique's object by name. A daemon creates its pod with its address, makes it ready when the
object has the address, and is done when all members in the object are ready. Kubelets are simulated, too: nodes, slices
and pods are only objects. A clique has 18 nodes. Runs in the namespaces of the control plane.
"""

import argparse
import asyncio
import json
import os
import pathlib
import re
import ssl
import subprocess
import sys
import time

NAMESPACE = "imex-dra"
CLIQUES = f"/apis/resource.nvidia.com/v1beta1/namespaces/{NAMESPACE}/computedomaincliques"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
NODES = "/api/v1/nodes"
OF_CLIQUE = 18
AT_ONCE = 32


class Server:
    """The API server, as the cluster's admin."""

    def __init__(self, kubeconfig):
        text = pathlib.Path(kubeconfig).read_text()
        self.host, self.port = re.search(r'server: "https://([^:"]+):(\d+)"', text).groups()
        self.token = re.search(r'token: "?([^"}]+)', text).group(1)
        self.tls = ssl.create_default_context(cafile=re.search(r'certificate-authority: "([^"]+)"', text).group(1))
        self.slots = asyncio.Semaphore(AT_ONCE)

    async def open(self, method, path, body=None, kind="application/json"):
        """Sends a request; returns the status and a reader of the body."""
        reader, writer = await asyncio.open_connection(self.host, self.port, ssl=self.tls)
        data = b"" if body is None else json.dumps(body).encode()
        writer.write(
            f"{method} {path} HTTP/1.1\r\nHost: {self.host}\r\nAuthorization: Bearer {self.token}\r\n"
            f"User-Agent: simulated\r\nConnection: close\r\nAccept: application/json\r\n"
            f"Content-Type: {kind}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data
        )
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        return int(head.split()[1]), reader, writer, "transfer-encoding: chunked" in head

    async def ask(self, method, path, body=None, kind="application/json", accept=(200, 201, 404)):
        async with self.slots:
            status, reader, writer, chunked = await self.open(method, path, body, kind)
            raw = await reader.read()
            writer.close()
        text = unchunked(raw) if chunked else raw
        if status not in accept:
            sys.exit(f"{method} {path}: {status} {text[:500]!r}")
        return json.loads(text), len(raw)


def unchunked(raw):
    text = b""
    while raw:
        size, _, rest = raw.partition(b"\r\n")
        length = int(size, 16)
        text += rest[:length]
        raw = rest[length + 2 :]
    return text


class Daemon:
    """A simulated daemon. `done` is the time at which it saw that all members are ready."""

    def __init__(self, server, number):
        self.server = server
        self.number = number
        self.node = f"node-{number}"
        self.clique = f"{number // OF_CLIQUE:08x}-0000-0000-0000-000000000001.0"
        self.address = f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
        self.pod = f"daemon-{number}"
        self.bytes = 0
        self.ready = False
        self.done = None

    async def prepare(self):
        node, _ = await self.server.ask("POST", NODES, {"metadata": {"name": self.node}})
        owner = {"apiVersion": "v1", "kind": "Node", "name": self.node, "uid": node["metadata"]["uid"]}
        await self.server.ask("POST", SLICES, {
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
            "metadata": {"name": self.node, "ownerReferences": [owner]},
            "spec": {
                "driver": "compute-domain.nvidia.com", "nodeName": self.node,
                "pool": {"name": self.node, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "channel-0", "attributes": {"clique": {"string": self.clique}}}],
            },
        })

    async def set_ready(self, ready):
        status = {"status": {
            "phase": "Running", "podIP": self.address, "podIPs": [{"ip": self.address}],
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        }}
        await self.server.ask("PATCH", f"{PODS}/{self.pod}/status", status, "application/merge-patch+json")

    async def run(self, size):
        await self.server.ask("POST", PODS, {
            "metadata": {"name": self.pod, "labels": {"imex-dra-component": "imex-daemon"}},
            "spec": {
                "nodeName": self.node, "automountServiceAccountToken": False,
                "containers": [{"name": "main", "image": "none"}],
            },
        })
        await self.set_ready(False)
        of_clique = min(OF_CLIQUE, size - self.number // OF_CLIQUE * OF_CLIQUE)
        one = f"{CLIQUES}?fieldSelector=metadata.name%3D{self.clique}"
        listed, length = await self.server.ask("GET", one)
        self.bytes += length
        for item in listed["items"]:
            await self.see(item, of_clique)
        version = listed["metadata"]["resourceVersion"]
        _, reader, writer, _ = await self.server.open("GET", f"{one}&watch=1&allowWatchBookmarks=true&resourceVersion={version}")
        while self.done is None:
            length = int(await reader.readline(), 16)
            event = await reader.readexactly(length + 2)
            self.bytes += length
            for line in event.splitlines():
                if line:
                    await self.see(json.loads(line)["object"], of_clique)
        writer.close()

    async def see(self, clique, of_clique):
        daemons = clique.get("daemons", [])
        own = [it for it in daemons if it["nodeName"] == self.node and it["ipAddress"] == self.address]
        if own and not self.ready:
            self.ready = True
            await self.set_ready(True)
        if sum(it["status"] == "Ready" for it in daemons) == of_clique:
            self.done = time.monotonic()


async def each(daemons, what):
    await asyncio.gather(*(what(daemon) for daemon in daemons))


def writes(audit):
    """The number of the controller's writes of cliques so far."""
    count = 0
    for line in audit.read_text().splitlines():
        event = json.loads(line)
        is_clique = event.get("objectRef", {}).get("resource") == "computedomaincliques"
        count += is_clique and event["verb"] in ("create", "update", "patch") and event.get("userAgent") != "simulated"
    return count


async def measure(server, size, controller, audit):
    daemons = [Daemon(server, number) for number in range(size)]
    await each(daemons, Daemon.prepare)
    log = open(os.devnull, "w")
    before = writes(audit)
    program = subprocess.Popen([controller, "--pod-name", "bench"], env=dict(os.environ, NAMESPACE=NAMESPACE), stdout=log, stderr=log)
    try:
        await asyncio.sleep(3)
        began = time.monotonic()
        await each(daemons, lambda daemon: daemon.run(size))
        took = max(daemon.done for daemon in daemons) - began
        await asyncio.sleep(2)
        made = writes(audit) - before
    finally:
        program.terminate()
        program.wait()
    cliques = -(-size // OF_CLIQUE)
    received = [daemon.bytes for daemon in daemons]
    print(
        f"| {size} | {cliques} | {took:.1f} s | {made} | {made / cliques:.1f} | {made / size:.2f} | "
        f"{sum(received) / size / 1024:.1f} KiB | {max(received) / 1024:.1f} KiB |",
        flush=True,
    )
    for path, name in ((PODS, "pod"), (SLICES, "node"), (NODES, "node")):
        body = {"gracePeriodSeconds": 0}
        await each(daemons, lambda daemon: server.ask("DELETE", f"{path}/{getattr(daemon, name)}", body))
    for clique in sorted({daemon.clique for daemon in daemons}):
        await server.ask("DELETE", f"{CLIQUES}/{clique}")


async def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="18,72,1152")
    parser.add_argument("--controller", required=True)
    parser.add_argument("--audit-log", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    server = Server(os.environ["KUBECONFIG"])
    print("| nodes | cliques | all ready after | writes of cliques | of each | for a node | watched by a daemon | most |")
    print("|--:|--:|--:|--:|--:|--:|--:|--:|")
    for size in map(int, arguments.sizes.split(",")):
        await measure(server, size, arguments.controller, arguments.audit_log)


asyncio.run(main())
