//! The example `inject_bundle` and a real runtime: what a container that has
//! an IMEX channel sees.
//!
//! Needs root, `runc` (or the program that `IMEX_RUNC` names) and a static
//! `busybox`. Where they are missing, the test passes with a message, unless `IMEX_REQUIRE_RUNC` is
//! set.
#![cfg(feature = "inject")]
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed unwrap outside a test function fails the test too"
)]

#[expect(dead_code, reason = "`main` prints what `run` says")]
#[path = "../examples/inject_bundle.rs"]
mod inject_bundle;

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use imex_cdi::{
    CHANNEL_DIR, ChannelId, ContainerEdits, Device, DeviceName, DeviceNode, DeviceType, Kind,
    Major, Permissions, Spec, channel_edits,
};
use serde_json::{Value, json};

/// A major that no driver of this machine has: opening its nodes is ENXIO
/// where the device cgroup allows it, and EPERM where not.
const MAJOR: u32 = 509;

/// What the tests need of the machine.
struct Machine {
    runc: PathBuf,
    busybox: PathBuf,
}

/// A bundle as `runc spec` makes it, with busybox, and a CDI directory.
struct Bundle {
    machine: Machine,
    scratch: tempfile::TempDir,
}

impl Machine {
    fn find() -> Result<Self, String> {
        if !nix_root() {
            return Err("not root".to_owned());
        }
        let runc =
            std::env::var_os("IMEX_RUNC").map_or_else(|| on_path("runc"), |path| Some(path.into()));
        Ok(Self {
            runc: runc.ok_or("no runc on PATH and IMEX_RUNC is not set")?,
            busybox: on_path("busybox").ok_or("no busybox on PATH")?,
        })
    }
}

fn nix_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    status.lines().any(|line| line.starts_with("Uid:\t0\t0\t"))
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
}

impl Bundle {
    /// `None`, with a message, where the machine lacks something that is needed.
    fn new() -> Option<Self> {
        let machine = match Machine::find() {
            Ok(machine) => machine,
            Err(why) => {
                assert!(
                    std::env::var_os("IMEX_REQUIRE_RUNC").is_none(),
                    "IMEX_REQUIRE_RUNC is set: {why}"
                );
                let line = format!("\nSKIPPED: no container was run: {why}\n");
                std::io::stderr().write_all(line.as_bytes()).unwrap();
                return None;
            }
        };
        let scratch = tempfile::tempdir().unwrap();
        let bundle = Self { machine, scratch };
        std::fs::create_dir_all(bundle.path("rootfs/bin")).unwrap();
        std::fs::create_dir(bundle.path("cdi")).unwrap();
        std::fs::copy(&bundle.machine.busybox, bundle.path("rootfs/bin/busybox")).unwrap();
        for applet in ["sh", "stat", "cat", "mknod", "echo"] {
            std::os::unix::fs::symlink("busybox", bundle.path("rootfs/bin").join(applet)).unwrap();
        }
        let made = Command::new(&bundle.machine.runc)
            .arg("spec")
            .current_dir(bundle.path(""))
            .status();
        assert!(made.unwrap().success());
        Some(bundle)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn config(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.path("config.json")).unwrap()).unwrap()
    }

    /// Has the container run `script` as root with `CAP_MKNOD`, as containerd's do.
    fn script(&self, script: &str) {
        let mut config = self.config();
        config["x-vendor"] = json!({"kept": [1, 2.5]});
        config["root"]["readonly"] = json!(false);
        config["process"]["terminal"] = json!(false);
        config["process"]["args"] = json!(["/bin/sh", "-c", script]);
        for set in ["bounding", "effective", "permitted"] {
            config["process"]["capabilities"][set] = json!(["CAP_MKNOD"]);
        }
        std::fs::write(self.path("config.json"), config.to_string()).unwrap();
    }

    fn spec(&self, devices: Vec<Device>) {
        let spec = Spec::new(Kind::compute_domain_claim(), devices).unwrap();
        std::fs::write(self.path("cdi/claim.json"), spec.to_json()).unwrap();
    }

    fn inject(&self, devices: &[&str]) -> Result<String, String> {
        let text = |path: PathBuf| path.display().to_string();
        let mut args = vec![
            "--cdi-dir".to_owned(),
            text(self.path("cdi")),
            text(self.path("")),
        ];
        let kind = Kind::compute_domain_claim();
        args.extend(devices.iter().map(|device| format!("{kind}={device}")));
        inject_bundle::run(args.into_iter()).map_err(|error| error.to_string())
    }

    /// What the script printed.
    fn run(&self) -> String {
        // Names the container's cgroup, so it is this test's own.
        let scratch = self.scratch.path().file_name().unwrap();
        let id = format!("imex-cdi{}", scratch.to_str().unwrap());
        let out = Command::new(&self.machine.runc)
            .arg("--root")
            .arg(self.path("state"))
            .args(["run", "--bundle"])
            .arg(self.path(""))
            .arg(&id)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "runc: {stderr}");
        String::from_utf8(out.stdout).unwrap()
    }
}

fn channel(id: u32) -> Device {
    let channel = ChannelId::new(id).unwrap();
    Device {
        name: channel.device_name(),
        annotations: std::collections::BTreeMap::new(),
        container_edits: channel_edits(channel, Major::new(MAJOR).unwrap()),
    }
}

/// `name`, a node under the channels that is `/dev/null` by its numbers.
fn null(name: &str, permissions: Permissions) -> Device {
    let node = DeviceNode {
        path: format!("{CHANNEL_DIR}/{name}"),
        host_path: None,
        device_type: Some(DeviceType::Char),
        major: Some(1),
        minor: Some(3),
        file_mode: Some(0o606),
        permissions: Some(permissions),
        uid: Some(7),
        gid: Some(8),
    };
    Device {
        name: DeviceName::new(name).unwrap(),
        annotations: std::collections::BTreeMap::new(),
        container_edits: ContainerEdits {
            env: vec!["CHANNELS=0".to_owned()],
            device_nodes: vec![node],
            ..ContainerEdits::default()
        },
    }
}

// req: CDI-27, CHANNEL-2
#[test]
fn a_container_gets_the_channels_node_and_may_open_that_one_and_no_other() {
    let Some(bundle) = Bundle::new() else { return };
    let channel0 = format!("{CHANNEL_DIR}/channel0");
    bundle.script(&format!(
        "stat -c '%F %t:%T %a %u:%g' {channel0} {CHANNEL_DIR}/null
         echo $CHANNELS
         cat {CHANNEL_DIR}/null && echo x >{CHANNEL_DIR}/null && echo null opens
         cat {channel0} 2>&1
         mknod /channel1 c {MAJOR} 1 && cat /channel1 2>&1
         mknod /again c {MAJOR} 0 && cat /again 2>&1
         echo done"
    ));
    bundle.spec(vec![channel(0), null("null", Permissions::READ_WRITE)]);
    let report = bundle.inject(&["channel-0", "null"]).unwrap();
    assert!(
        report.starts_with(&format!("make {channel0} c {MAJOR}:0 mode 0666 (")),
        "{report}"
    );
    assert_eq!(
        bundle.run().lines().collect::<Vec<_>>(),
        [
            format!("character special file {MAJOR:x}:0 666 0:0").as_str(),
            "character special file 1:3 606 7:8",
            "0",
            "null opens",
            // The cgroup allows it and there is no driver.
            format!("cat: can't open '{channel0}': No such device or address").as_str(),
            // The cgroup does not.
            "cat: can't open '/channel1': Operation not permitted",
            // The rule is about numbers, not about a path.
            "cat: can't open '/again': No such device or address",
            "done",
        ]
    );
}

// req: CDI-27, CHANNEL-2
#[test]
fn a_container_without_the_channel_cannot_open_it_whatever_node_it_makes() {
    let Some(bundle) = Bundle::new() else { return };
    bundle.script(&format!(
        "mknod /channel0 c {MAJOR} 0 && cat /channel0 2>&1; echo done"
    ));
    assert_eq!(
        bundle.run(),
        "cat: can't open '/channel0': Operation not permitted\ndone\n"
    );
}

#[test]
fn permissions_to_read_are_none_to_write() {
    let Some(bundle) = Bundle::new() else { return };
    let mut readable = channel(3);
    readable.container_edits.device_nodes[0].permissions = Some("r".parse().unwrap());
    bundle.spec(vec![readable]);
    let node = format!("{CHANNEL_DIR}/channel3");
    bundle.script(&format!(
        "cat {node} 2>&1; (echo x >{node}) 2>&1; echo done"
    ));
    bundle.inject(&["channel-3"]).unwrap();
    let printed = bundle.run();
    let lines: Vec<_> = printed.lines().collect();
    assert!(lines[0].ends_with("No such device or address"), "{printed}");
    assert!(lines[1].ends_with("Operation not permitted"), "{printed}");
}

#[test]
fn the_example_keeps_the_rest_of_the_config_and_its_mode() {
    let Some(bundle) = Bundle::new() else { return };
    bundle.script("echo");
    bundle.spec(vec![channel(0)]);
    let before = bundle.config();
    // It may have secrets in its environment.
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(bundle.path("config.json"), private).unwrap();
    bundle.inject(&["channel-0"]).unwrap();
    let mut after = bundle.config();
    assert_eq!(after["x-vendor"], json!({"kept": [1, 2.5]}));
    after["linux"]
        .as_object_mut()
        .unwrap()
        .remove("devices")
        .unwrap();
    after["linux"]["resources"]["devices"]
        .as_array_mut()
        .unwrap()
        .pop()
        .unwrap();
    assert_eq!(after, before);
    let mode = std::fs::metadata(bundle.path("config.json"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn the_example_changes_nothing_when_a_name_has_no_device() {
    let Some(bundle) = Bundle::new() else { return };
    bundle.spec(vec![channel(0)]);
    let before = std::fs::read(bundle.path("config.json")).unwrap();
    let error = bundle.inject(&["channel-0", "channel-9"]).unwrap_err();
    assert!(error.contains("claim=channel-9"), "{error}");
    assert_eq!(std::fs::read(bundle.path("config.json")).unwrap(), before);
    assert!(
        files(bundle.scratch.path())
            .iter()
            .all(|name| !name.contains("tmp"))
    );
}

#[test]
fn the_example_prints_its_usage() {
    for args in [&[][..], &["--what"], &["--cdi-dir"], &["/bundle"]] {
        let args = args.iter().map(ToString::to_string);
        assert!(
            inject_bundle::run(args)
                .unwrap_err()
                .to_string()
                .starts_with("usage:")
        );
    }
}

#[test]
fn the_example_prints_help_on_request() {
    let help = inject_bundle::run(["--help".to_owned()].into_iter()).unwrap();
    assert!(help.starts_with("usage:"), "{help}");
}

/// Needs no runtime.
#[test]
fn the_example_keeps_a_link_and_names_a_file_that_is_not_json() {
    let scratch = tempfile::tempdir().unwrap();
    let [cdi, bundle, real] = ["cdi", "bundle", "real.json"].map(|name| scratch.path().join(name));
    std::fs::create_dir(&cdi).unwrap();
    std::fs::create_dir(&bundle).unwrap();
    let spec = Spec::new(Kind::compute_domain_claim(), vec![channel(0)]).unwrap();
    std::fs::write(cdi.join("claim.json"), spec.to_json()).unwrap();
    let link = bundle.join("config.json");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let name = format!("{}=channel-0", Kind::compute_domain_claim());
    let inject = || {
        let args = [
            "--cdi-dir",
            cdi.to_str().unwrap(),
            bundle.to_str().unwrap(),
            &name,
        ];
        let args = args.map(str::to_owned);
        inject_bundle::run(args.into_iter()).map_err(|error| error.to_string())
    };
    assert!(inject().unwrap_err().contains("bundle/config.json"));
    std::fs::write(&real, "{").unwrap();
    let error = inject().unwrap_err();
    assert!(
        error.contains("bundle/config.json") && error.contains("EOF"),
        "{error}"
    );
    std::fs::write(&real, "{}").unwrap();
    inject().unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    let config: Value = serde_json::from_slice(&std::fs::read(&real).unwrap()).unwrap();
    assert_eq!(config["linux"]["devices"][0]["major"], MAJOR);
}

fn files(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}
