//! The CDI directories, as a runtime and as the host see them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use super::host::{Host, mounts};

/// A process in its own mount namespace.
struct Elsewhere(Child);

impl Elsewhere {
    /// Mounts an empty file system at `path` of the host in that namespace. The host's process 800
    /// is this process.
    fn with_mount(host: &Host, path: &str) -> Self {
        let mut unshare = Command::new("unshare");
        // Without root, mounts need a user namespace.
        if fs::metadata("/proc/self").unwrap().uid() != 0 {
            unshare.args(["--user", "--map-root-user"]);
        }
        let mut child = unshare
            .args(["--mount", "sh", "-c"])
            .arg("mount -t tmpfs tmpfs \"$0\" && echo ready && read -r end")
            .arg(host.at(path))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut printed = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut printed).unwrap();
        assert_eq!(printed, "ready\n");
        // `unshare` has become the shell.
        let root = format!("/proc/{}/root{}", child.id(), host.at("").display());
        host.remove("proc/800/root");
        symlink(root, host.at("proc/800/root")).unwrap();
        Self(child)
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let mut stdin = self.0.stdin.take().unwrap();
        stdin.write_all(b"\n").unwrap();
        self.0.wait().unwrap();
    }
}

/// The line of `doctor` on watching, and the ids of all findings.
fn watching(host: &Host, code: i32) -> (String, Vec<String>) {
    let report = host.json("doctor --json", code);
    let areas = report.get("areas").and_then(Value::as_array).unwrap();
    let mut areas = areas.iter();
    let area = areas.find(|it| it.get("name").unwrap() == "watching");
    let summary = area.unwrap().get("summary").and_then(Value::as_str);
    (summary.unwrap().to_owned(), host.ids(code))
}

fn is_mounted(ids: &[String]) -> bool {
    ids.contains(&"cdi-directory-mounted".to_owned())
}

#[test]
fn a_mount_that_the_runtime_does_not_see_is_named() {
    let host = Host::healthy();
    let printed = watching(&host, 0).0;
    assert!(
        printed.ends_with("; containerd sees the same directories"),
        "{printed}"
    );

    let elsewhere = Elsewhere::with_mount(&host, "run/cdi");
    let report = host.json("doctor --json", 1);
    let finding = report.pointer("/findings/0").unwrap();
    let text = |name| finding.get(name).and_then(Value::as_str).unwrap();
    assert_eq!(text("id"), "cdi-directory-other-mount", "{report:#}");
    assert_eq!(text("subject"), "/run/cdi");
    let inode = host.at("run/cdi").metadata().unwrap().ino();
    let evidence = text("evidence");
    let host_has = format!("at this path, the host has inode {inode} of device ");
    assert!(evidence.starts_with(&host_has), "{evidence}");
    assert!(
        evidence.contains(", but containerd (process 800) sees inode 1 of device 0:"),
        "{evidence}"
    );
    drop(elsewhere);
}

#[test]
fn a_runtime_in_a_container_has_files_of_its_own() {
    let host = Host::healthy();
    let container = Host::healthy();
    host.remove("proc/800/root");
    symlink(container.at(""), host.at("proc/800/root")).unwrap();
    let (printed, ids) = watching(&host, 0);
    assert!(!printed.contains("containerd"), "{printed}");
    assert!(!ids.contains(&"cdi-directory-other-mount".to_owned()));
}

#[test]
fn a_runtime_of_another_host_that_shares_the_process_ids_is_not_this_ones() {
    let host = Host::healthy();
    // Another /run, and so other specs in it.
    let elsewhere = Elsewhere::with_mount(&host, "run");
    let (printed, ids) = watching(&host, 0);
    assert!(!printed.contains("containerd"), "{printed}");
    assert!(!ids.contains(&"cdi-directory-other-mount".to_owned()));
    drop(elsewhere);
}

#[test]
fn a_mount_is_worth_knowing_until_the_runtime_is_seen_to_watch_it() {
    let host = Host::healthy();
    assert!(!is_mounted(&watching(&host, 0).1));

    let mount = "40 22 0:33 / /run/cdi rw - tmpfs tmpfs rw\n";
    host.write("proc/800/mountinfo", mounts(mount));
    assert!(is_mounted(&watching(&host, 0).1));
    watches(&host, &["run"]);
    assert!(is_mounted(&watching(&host, 0).1));
    watches(&host, &["run", "run/cdi"]);
    assert!(!is_mounted(&watching(&host, 0).1));
}

#[test]
fn a_runtime_that_watches_the_other_directory_and_not_the_mount_is_named() {
    let host = Host::healthy();
    let mount = "40 22 0:33 / /run/cdi rw - tmpfs tmpfs rw\n";
    host.write("proc/800/mountinfo", mounts(mount));
    watches(&host, &["etc/cdi"]);
    let report = host.json("doctor --json", 1);
    let text = |name| report.pointer(&format!("/findings/0/{name}")).unwrap();
    assert_eq!(text("id"), "cdi-directory-mounted", "{report:#}");
    assert_eq!(text("fix"), "restart containerd");
    watches(&host, &["etc/cdi", "run/cdi"]);
    assert!(!is_mounted(&watching(&host, 0).1));
}

/// The host's process 800 watches these paths of it.
fn watches(host: &Host, paths: &[&str]) {
    let watch = |path: &&str| {
        let inode = host.at(path).metadata().unwrap().ino();
        format!("inotify wd:1 ino:{inode:x} sdev:21 mask:c84 ignored_mask:0\n")
    };
    let watches: String = paths.iter().map(watch).collect();
    let info = format!("pos:\t0\nflags:\t02\n{watches}");
    host.write("proc/800/fdinfo/7", info);
}
