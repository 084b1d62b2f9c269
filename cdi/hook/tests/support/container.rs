//! A container before its start: a bundle with a root file system, and a directory of the host beside it.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

pub(crate) const HOOK: &str = env!("CARGO_BIN_EXE_nvidia-cdi-hook");
/// The path of a SONAME link that ldconfig creates for [`Container::library`], without its folder.
pub(crate) const SONAME: &str = "libgcc_s.so.1";

pub(crate) struct Container {
    dir: TempDir,
}

/// Whether mounts and namespaces can be made. Without root the caller's test passes, with a message.
pub(crate) fn is_root() -> bool {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root {
        let text = "\nSKIPPED: not root, so no hook was run in a mount namespace\n";
        std::io::stderr().write_all(text.as_bytes()).unwrap();
    }
    is_root
}

// === impl Container ===

impl Container {
    pub(crate) fn new() -> Self {
        let container = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        // The container's users must reach the bundle.
        fs::set_permissions(container.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(container.root()).unwrap();
        fs::create_dir(container.outside()).unwrap();
        container.write_host("config.json", r#"{"root": {"path": "rootfs"}}"#);
        let state = format!(r#"{{"bundle": "{}"}}"#, container.dir.path().display());
        container.write_host("state.json", &state);
        container
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("rootfs")
    }

    /// A directory of the host.
    pub(crate) fn outside(&self) -> PathBuf {
        self.dir.path().join("outside")
    }

    fn write_host(&self, name: &str, text: &str) {
        fs::write(self.dir.path().join(name), text).unwrap();
    }

    /// The host's path of a container's path, whose parents are created.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        let path = self.root().join(path.trim_start_matches('/'));
        let _ = fs::create_dir_all(path.parent().unwrap());
        path
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        fs::write(self.at(path), text).unwrap();
    }

    pub(crate) fn link(&self, path: &str, target: impl AsRef<Path>) {
        symlink(target, self.at(path)).unwrap();
    }

    /// Puts a library with [`SONAME`] at the path.
    pub(crate) fn library(&self, path: &str) {
        fs::copy(host_library(), self.at(path)).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root().join(path.trim_start_matches('/'))).ok()
    }

    /// Runs the hook without namespaces of its own.
    pub(crate) fn hook(&self, arguments: &str) -> Output {
        let mut command = Command::new(HOOK);
        command.args(arguments.split_whitespace());
        command.stdin(fs::File::open(self.dir.path().join("state.json")).unwrap());
        command.output().unwrap()
    }

    /// Runs a shell script in a mount namespace, in the bundle. The root is a mount, as a runtime makes it; `$hook`
    /// is the hook.
    pub(crate) fn script(&self, script: &str) -> Output {
        let script = format!("set -e; mount --bind rootfs rootfs; {script}");
        Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", &script])
            .env("hook", HOOK)
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Runs the hook in a mount namespace.
    pub(crate) fn mounted(&self, arguments: &str) -> Output {
        self.script(&format!("$hook {arguments} <state.json"))
    }
}

/// The host's library with [`SONAME`]. It is next to the C library, which every program has mapped.
pub(crate) fn host_library() -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let path = maps.split_whitespace().find(|it| it.contains("/libc.so"));
    PathBuf::from(path.unwrap()).with_file_name(SONAME)
}

pub(crate) fn assert_succeeds(output: &Output) {
    assert!(output.status.success(), "{}", stderr(output));
    assert_eq!(stderr(output), "");
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}
