//! The hook of a real container.
//!
//! Needs root, `runc` (or the program that `IMEX_RUNC` names) and a static `busybox` on `PATH`. Where they are
//! missing, the test passes with a message, unless `IMEX_REQUIRE_RUNC` is set.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed unwrap outside a test function fails the test too"
)]

#[path = "support/container.rs"]
#[expect(dead_code, reason = "the other tests use the rest")]
mod container;

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::container::{Container, HOOK, SONAME, is_root, stderr, stdout};

/// The runtime and busybox.
fn programs() -> Option<(OsString, PathBuf)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut files = std::env::split_paths(&path).map(|dir| dir.join("busybox"));
    let busybox = files.find(|file| file.is_file());
    let runc = std::env::var_os("IMEX_RUNC").unwrap_or_else(|| "runc".into());
    let has_runc = Command::new(&runc).arg("--version").output().is_ok();
    let found = busybox.filter(|_| has_runc && is_root());
    if found.is_none() {
        assert!(
            std::env::var_os("IMEX_REQUIRE_RUNC").is_none(),
            "IMEX_REQUIRE_RUNC is set, and root, runc or busybox is missing"
        );
        let text = "\nSKIPPED: no container was run: root, runc or busybox is missing\n";
        std::io::stderr().write_all(text.as_bytes()).unwrap();
    }
    found.map(|busybox| (runc, busybox))
}

/// Runs a shell script in a container with the hook, and returns what it prints.
fn run(container: &Container, runc: &OsString, hook: &str, script: &str) -> Result<String, String> {
    let path = container.path().join("config.json");
    fs::remove_file(&path).unwrap();
    let made = Command::new(runc)
        .arg("spec")
        .current_dir(container.path())
        .output();
    assert!(made.unwrap().status.success());
    let mut config: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let arguments: Vec<&str> = std::iter::once("nvidia-cdi-hook")
        .chain(hook.split_whitespace())
        .collect();
    config["hooks"] = json!({"createContainer": [{"path": HOOK, "args": arguments}]});
    config["process"]["terminal"] = json!(false);
    config["process"]["args"] = json!(["/bin/busybox", "sh", "-c", script]);
    fs::write(&path, config.to_string()).unwrap();
    // Names the container's cgroup, so it is this test's own.
    let id = container.path().file_name().unwrap().display().to_string();
    let output = Command::new(runc)
        .arg("--root")
        .arg(container.path().join("state"))
        .args(["run", "--bundle"])
        .arg(container.path())
        .arg(format!("hook{id}"))
        .output()
        .unwrap();
    if output.status.success() {
        Ok(stdout(&output))
    } else {
        Err(stderr(&output))
    }
}

fn with_busybox(busybox: &PathBuf) -> Container {
    let container = Container::new();
    fs::copy(busybox, container.at("/bin/busybox")).unwrap();
    container
}

#[test]
fn a_container_finds_links_and_cache_at_its_start() {
    let Some((runc, busybox)) = programs() else {
        return;
    };
    let container = with_busybox(&busybox);
    container.library("/driver/lib/libcuda.so.575.57.08");
    let hook = "container --link libcuda.so.1::/driver/lib/libcuda.so --folder /driver/lib --host-driver-version 575.57.08";
    let script =
        "busybox readlink /driver/lib/libcuda.so; busybox readlink /driver/lib/libgcc_s.so.1
                  busybox grep -c /driver/lib/ /etc/ld.so.cache
                  busybox cat /etc/ld.so.conf.d/00-nvcr-*
                  busybox ls /proc/self/exe
                  touch /x 2>/dev/null || echo read-only";
    let printed = run(&container, &runc, hook, script).unwrap();
    assert_eq!(SONAME, "libgcc_s.so.1");
    let expected =
        "libcuda.so.1\nlibcuda.so.575.57.08\n1\n/driver/lib\n/proc/self/exe\nread-only\n";
    assert_eq!(printed, expected);
}

#[test]
fn a_failed_hook_stops_the_container_with_its_reason() {
    let Some((runc, busybox)) = programs() else {
        return;
    };
    let container = with_busybox(&busybox);
    let hook = "container --folder /driver/lib --ldconfig-path /missing/ldconfig";
    let error = run(&container, &runc, hook, "echo started").unwrap_err();
    assert!(
        error.contains("no ldconfig on the host: /missing/ldconfig"),
        "{error}"
    );
}
