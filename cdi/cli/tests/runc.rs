//! `cdi-gen hook` as a hook of a real runtime.
//!
//! Needs root, `runc` (or the program that `IMEX_RUNC` names) and a static `busybox`. Where
//! they are missing, the test passes with a message, unless `IMEX_REQUIRE_RUNC` is set.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed unwrap outside a test function fails the test too"
)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A major that the host below has for its channels, and no driver of this machine.
const MAJOR: u32 = 509;

/// A bundle as `runc spec` makes it, and the root of a host that has channels.
struct Bundle {
    runc: PathBuf,
    scratch: TempDir,
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
}

/// runc and busybox, or what is missing.
fn programs() -> Result<[PathBuf; 2], &'static str> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    if !status.lines().any(|line| line.starts_with("Uid:\t0\t0\t")) {
        return Err("not root");
    }
    let named = std::env::var_os("IMEX_RUNC").map(PathBuf::from);
    let runc = named.or_else(|| on_path("runc"));
    Ok([
        runc.ok_or("no runc on PATH and IMEX_RUNC is not set")?,
        on_path("busybox").ok_or("no busybox on PATH")?,
    ])
}

impl Bundle {
    /// `None`, with a message, where the machine lacks something that is needed.
    fn new() -> Option<Self> {
        let [runc, busybox] = match programs() {
            Ok(programs) => programs,
            Err(why) => {
                let required = std::env::var_os("IMEX_REQUIRE_RUNC");
                assert!(required.is_none(), "IMEX_REQUIRE_RUNC is set: {why}");
                let line = format!("\nSKIPPED: no container was run: {why}\n");
                std::io::stderr().write_all(line.as_bytes()).unwrap();
                return None;
            }
        };
        let scratch = tempfile::tempdir().unwrap();
        let bundle = Self { runc, scratch };
        fs::create_dir_all(bundle.path("rootfs/bin")).unwrap();
        fs::create_dir_all(bundle.path("host/proc")).unwrap();
        let devices = format!("Character devices:\n{MAJOR} nvidia-caps-imex-channels\n");
        fs::write(bundle.path("host/proc/devices"), devices).unwrap();
        fs::copy(busybox, bundle.path("rootfs/bin/busybox")).unwrap();
        let made = Command::new(&bundle.runc)
            .arg("spec")
            .current_dir(bundle.path(""))
            .status();
        assert!(made.unwrap().success());
        Some(bundle)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// A container that prints `started`, with this hook and, perhaps, channel 3.
    fn configure(&self, has_channel: bool, hook: &[&str]) {
        let text = fs::read(self.path("config.json")).unwrap();
        let mut config: Value = serde_json::from_slice(&text).unwrap();
        config["process"]["terminal"] = json!(false);
        config["process"]["args"] = json!(["/bin/busybox", "echo", "started"]);
        let program = Path::new(env!("CARGO_BIN_EXE_cdi-gen"));
        let mut args = vec!["cdi-gen", "hook", "createRuntime", "--root"];
        let host = self.path("host");
        args.push(host.to_str().unwrap());
        args.extend(hook);
        config["hooks"] =
            json!({"createRuntime": [{"path": program, "args": args, "timeout": 20}]});
        if has_channel {
            let path = "/dev/nvidia-caps-imex-channels/channel3";
            config["linux"]["devices"] =
                json!([{"path": path, "type": "c", "major": MAJOR, "minor": 3}]);
        }
        fs::write(self.path("config.json"), config.to_string()).unwrap();
    }

    fn run(&self) -> (bool, String) {
        // Names the container's cgroup, so it is this test's own.
        let scratch = self.scratch.path().file_name().unwrap();
        let id = format!("cdi-gen{}", scratch.to_str().unwrap());
        let Output {
            status,
            stdout,
            stderr,
        } = Command::new(&self.runc)
            .arg("--root")
            .arg(self.path("state"))
            .args(["run", "--bundle"])
            .arg(self.path(""))
            .arg(&id)
            .output()
            .unwrap();
        let printed = [stdout, stderr].concat();
        (status.success(), String::from_utf8(printed).unwrap())
    }
}

#[test]
fn a_container_with_a_channel_that_is_not_its_own_is_not_created_and_runc_says_why() {
    let Some(bundle) = Bundle::new() else { return };
    bundle.configure(true, &["--allow", "0-2"]);
    let before = fs::read(bundle.path("config.json")).unwrap();
    let (created, printed) = bundle.run();
    assert!(!created && !printed.contains("started"), "{printed}");
    let sentence =
        "the container asks for IMEX channel 3 (device /dev/nvidia-caps-imex-channels/channel3)";
    assert!(printed.contains(sentence), "{printed}");
    assert_eq!(fs::read(bundle.path("config.json")).unwrap(), before);
}

#[test]
fn a_container_whose_channel_is_allowed_or_that_has_none_runs() {
    let Some(bundle) = Bundle::new() else { return };
    for (has_channel, hook) in [
        (false, &[][..]),
        (true, &["--allow", "3"]),
        (true, &["--warn"]),
    ] {
        bundle.configure(has_channel, hook);
        let (created, printed) = bundle.run();
        assert!(
            created && printed.contains("started"),
            "{hook:?}: {printed}"
        );
    }
}
