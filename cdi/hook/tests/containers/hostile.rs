//! Images that try to make the hook write to the host, or not end.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::container::{Container, HOOK, assert_succeeds, host_library, is_root, stderr};

const STEPS: &str = "container --link target::/driver/lib/link --link target::/usr/lib/deep/er/link \
    --folder /driver/lib --host-driver-version 570.1";

/// How an image points outside, by the name of what it replaces.
fn attacks(outside: &Path) -> Vec<PathBuf> {
    let up =
        PathBuf::from("../../../../../../../../../..").join(outside.strip_prefix("/").unwrap());
    let by_process = |of: &str| {
        PathBuf::from(format!("/proc/{of}/root")).join(outside.strip_prefix("/").unwrap())
    };
    vec![
        outside.to_owned(),
        up,
        by_process("self"),
        by_process(&std::process::id().to_string()),
        by_process("thread-self"),
        PathBuf::from("/hop"),
    ]
}

const REPLACED: [&str; 9] = [
    "/driver",
    "/driver/lib",
    "/driver/lib/link",
    "/usr",
    "/usr/local/cuda/compat",
    "/etc",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.conf",
    "/proc/driver/nvidia",
];

/// The host's directory: a library for which ldconfig would create a link, files that would be replaced.
fn furnish(container: &Container) {
    let outside = container.outside();
    fs::copy(host_library(), outside.join("libouter.so.1.2")).unwrap();
    fs::write(outside.join("params"), "ModifyDeviceFiles: 1\n").unwrap();
    fs::write(outside.join("libcuda.so.580.1"), "").unwrap();
    for name in ["ld.so.conf", "ld.so.cache", "link"] {
        fs::write(outside.join(name), "host").unwrap();
    }
}

fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .map(|path| (path.clone(), fs::read(&path).unwrap_or_default()))
        .collect()
}

// req: GPU-9
#[test]
fn no_link_of_an_image_leads_the_hook_to_the_host() {
    if !is_root() {
        return;
    }
    let mut started = 0;
    for replaced in REPLACED {
        for attack in 0..6 {
            let container = Container::new();
            furnish(&container);
            fs::create_dir(container.root().join("proc")).unwrap();
            let target = &attacks(&container.outside())[attack];
            container.link("/hop", format!("hop2/../{}", container.outside().display()));
            container.link("/hop2", "/");
            if !replaced.starts_with("/proc") {
                container.link(replaced, target);
            }
            let before = contents(&container.outside());
            // A process of the host is 1 in this /proc, as for a container in the host's pid namespace.
            let proc = if replaced.starts_with("/proc") {
                format!(
                    "mkdir -p rootfs/proc/driver; ln -s {} rootfs/proc/driver/nvidia;",
                    target.display()
                )
            } else {
                "mount -t proc proc rootfs/proc;".to_owned()
            };
            let output = container.script(&format!("{proc} $hook {STEPS} <state.json"));
            started += i32::from(output.status.success());
            let after = contents(&container.outside());
            assert_eq!(before, after, "{replaced} -> {}", target.display());
        }
    }
    // Links that lead nowhere inside the root are errors; the others are followed inside.
    assert!(started > 20, "{started}");
}

#[test]
fn ldconfig_reaches_no_host_through_proc_wherever_the_container_has_it() {
    if !is_root() {
        return;
    }
    let container = Container::new();
    furnish(&container);
    let outside = container.outside();
    // A process of the host, as for a container in the host's pid namespace.
    let host = format!("proc/{}/root", std::process::id());
    let folders = [format!("/{host}"), format!("/host/{host}")];
    let lines = folders.map(|it| format!("{it}{}\n", outside.display()));
    let config = format!("include ld.so.conf.d/*.conf\n{}", lines.concat());
    container.write("/etc/ld.so.conf", config);
    let include = format!("include /{host}/etc/ld.so.conf\n");
    container.write("/etc/ld.so.conf.d/x.conf", include);
    container.library("/driver/lib/libcuda.so.575.57.08");
    let before = contents(&outside);
    let output = container.script(&format!(
        "mkdir -p rootfs/proc rootfs/host/proc; mount -t proc proc rootfs/proc
         mount --rbind /proc rootfs/host/proc
         test -e rootfs/{host}{outside}; test -e rootfs/host/{host}{outside}
         $hook update-ldcache --folder /driver/lib <state.json
         ldconfig -r rootfs -p",
        outside = outside.display()
    ));
    assert_succeeds(&output);
    assert_eq!(before, contents(&outside));
    let printed = String::from_utf8(output.stdout).unwrap();
    let is_inside = printed.contains("=> /driver/lib/") && !printed.contains("proc/");
    assert!(is_inside, "{printed}");
}

const CONFIG: &str = "/etc/ld.so.conf";
const PIPE: &str = "/etc/pipe";

/// A container with a named pipe, and a configuration that includes it so that only ldconfig opens it.
fn with_pipe() -> Container {
    let container = Container::new();
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    mkfifo(&container.at(PIPE), mode).unwrap();
    container.write(CONFIG, "include /e*/pipe\n");
    container
}

/// Opens a named pipe to write, once there is a process that reads it, or once there is none (`ENXIO`).
fn open_pipe(container: &Container, is_read: bool) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_WRONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let opened = open(&container.at(PIPE), flags, Mode::empty());
        if opened.is_ok() == is_read || Instant::now() > deadline {
            return opened;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

// req: GPU-20
#[test]
fn a_configuration_that_blocks_ldconfig_or_does_not_end_is_an_error() {
    if !is_root() {
        return;
    }
    let direct = with_pipe();
    fs::rename(direct.at(PIPE), direct.at(CONFIG)).unwrap();
    direct.link(PIPE, "ld.so.conf");
    // Open for both, the writer waits for no reader.
    let writer = "yes 1<>rootfs/etc/pipe 2>&- & trap \"kill $!\" EXIT;";
    for (container, before) in [(direct, ""), (with_pipe(), ""), (with_pipe(), writer)] {
        let script = format!("{before} $hook update-ldcache --ldconfig-timeout 1 <state.json");
        let error = stderr(&container.script(&script));
        let expected = format!(
            "nvidia-cdi-hook: ldconfig did not end within 1 s in the container's root {}; check that ",
            container.root().display()
        );
        assert!(error.starts_with(&expected), "{error}");
        assert_eq!(error.lines().count(), 1);
        let reader = open_pipe(&container, false);
        assert_eq!(reader.err(), Some(Errno::ENXIO), "ldconfig has not ended");
    }
}

#[test]
fn ldconfig_ends_with_a_hook_that_is_killed() {
    if !is_root() {
        return;
    }
    let container = with_pipe();
    let state = fs::File::open(container.path().join("state.json")).unwrap();
    let mut hook = Command::new(HOOK)
        .arg("update-ldcache")
        .stdin(state)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // While it is open, ldconfig waits for its end.
    let _writer = open_pipe(&container, true).unwrap();
    hook.kill().unwrap();
    hook.wait().unwrap();
    let reader = open_pipe(&container, false);
    assert_eq!(reader.err(), Some(Errno::ENXIO), "ldconfig has not ended");
}

// req: GPU-20
#[test]
fn a_line_of_the_configuration_takes_no_more_memory_than_the_limit() {
    if !is_root() {
        return;
    }
    let container = Container::new();
    container.library("/driver/lib/libcuda.so.575.57.08");
    container.library("/behind/libcuda.so.575.57.08");
    container.write(CONFIG, "");
    // A hole: one line of half a GiB, which ldconfig reads as a whole.
    let output = container.script(
        "truncate -s 512M rootfs/etc/ld.so.conf; printf '\n/behind\n' >>rootfs/etc/ld.so.conf
         $hook update-ldcache --folder /driver/lib <state.json
         ldconfig -r rootfs -p",
    );
    assert_succeeds(&output);
    let printed = String::from_utf8(output.stdout).unwrap();
    let is_cut = printed.contains("=> /driver/lib/") && !printed.contains("=> /behind/");
    assert!(is_cut, "{printed}");
}
