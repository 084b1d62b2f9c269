//! A node that a test runs.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const GIVE_UP: Duration = Duration::from_secs(30);

/// Each test has its own port; the addresses are the same.
pub(crate) fn next_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Below the kernel's ephemeral ports; each process of this test has its own range.
    let base = 20_000 + u16::try_from(std::process::id() % 100).unwrap() * 100;
    base + NEXT.fetch_add(1, Ordering::Relaxed)
}

/// One of three nodes, with its own driver root for faults.
pub(crate) struct Node {
    dir: tempfile::TempDir,
    port: u16,
    address: String,
    child: Option<Child>,
}

impl Node {
    pub(crate) fn new(port: u16, address: &str, hosts: &[(&str, &str)]) -> Self {
        let node = Self {
            dir: tempfile::tempdir().unwrap(),
            port,
            address: address.to_owned(),
            child: None,
        };
        fs::create_dir_all(node.path("usr/bin")).unwrap();
        node.write_list(&["a", "b", "c"]);
        node.write_hosts(hosts);
        node
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    pub(crate) fn write_list(&self, names: &[&str]) {
        fs::write(self.path("nodes.cfg"), names.join("\n")).unwrap();
        let config = format!(
            "DAEMONIZE=0\nSERVER_PORT={}\nIMEX_NODE_CONFIG_FILE={}\nIMEX_CMD_UNIX_DOMAIN_PATH={}\n",
            self.port,
            self.path("nodes.cfg").display(),
            self.path("imex.sock").display(),
        );
        fs::write(self.path("imex.cfg"), config).unwrap();
    }

    pub(crate) fn write_hosts(&self, hosts: &[(&str, &str)]) {
        let mut text = String::new();
        for (address, name) in hosts {
            writeln!(text, "{address}\t{name}").unwrap();
        }
        fs::write(self.path("new"), text).unwrap();
        fs::rename(self.path("new"), self.path("hosts")).unwrap();
    }

    pub(crate) fn break_with(&self, faults: &str) {
        fs::write(self.path("imex-faults"), faults).unwrap();
    }

    pub(crate) fn start(&mut self) {
        let log = fs::File::create(self.path("log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_nvidia-imex"))
            // The program finds its root by its path.
            .arg0(self.path("usr/bin/nvidia-imex"))
            .arg("-c")
            .arg(self.path("imex.cfg"))
            .env("IMEX_MOCK_HOSTS", self.path("hosts"))
            .env("IMEX_MOCK_ADDRESS", &self.address)
            .stdin(Stdio::null())
            .stdout(log)
            .spawn();
        self.child = Some(child.unwrap());
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.as_ref().unwrap().id()).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    /// Waits until it exits; returns its exit code.
    pub(crate) fn wait(&mut self) -> i32 {
        let child = self.child.as_mut().unwrap();
        child.wait().unwrap().code().unwrap()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap()
    }

    pub(crate) fn ctl(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_nvidia-imex-ctl"))
            .arg0(self.path("usr/bin/nvidia-imex-ctl"))
            .arg("-c")
            .arg(self.path("imex.cfg"))
            .args(args)
            .output()
            .unwrap()
    }

    pub(crate) fn state(&self) -> String {
        String::from_utf8(self.ctl(&["-q"]).stdout).unwrap()
    }

    /// The status of its connection to another node; empty if it does not answer.
    pub(crate) fn link(&self, other: &str) -> String {
        let output = self.ctl(&["-N", "-j"]);
        if !output.status.success() {
            return String::new();
        }
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let rows = answer["nodes"].as_object().unwrap();
        let own = rows
            .values()
            .find(|row| row["host"] == self.address.as_str());
        let status = &own.unwrap()["connections"][other]["status"];
        status.as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn until(&self, what: &str, is_true: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !is_true(self) {
            assert!(began.elapsed() < GIVE_UP, "{what}: {}", self.log());
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // It may have exited.
            let _ = child.kill();
            child.wait().unwrap();
        }
    }
}

pub(crate) const HOSTS: [(&str, &str); 3] =
    [("127.0.1.1", "a"), ("127.0.1.2", "b"), ("127.0.1.3", "c")];
