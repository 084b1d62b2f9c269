//! Several daemons on loopback addresses, each with its own hosts file, as in pods.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test ends where its expectation fails"
)]

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

/// Each test has a port of its own; the addresses are the same.
fn next_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Below the kernel's ephemeral ports; another process of this test has another range.
    let base = 20_000 + u16::try_from(std::process::id() % 100).unwrap() * 100;
    base + NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A node of three: its driver root has the faults.
struct Node {
    dir: tempfile::TempDir,
    port: u16,
    address: String,
    child: Option<Child>,
}

impl Node {
    fn new(port: u16, address: &str, hosts: &[(&str, &str)]) -> Self {
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

    fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    fn write_list(&self, names: &[&str]) {
        fs::write(self.path("nodes.cfg"), names.join("\n")).unwrap();
        let config = format!(
            "DAEMONIZE=0\nSERVER_PORT={}\nIMEX_NODE_CONFIG_FILE={}\nIMEX_CMD_UNIX_DOMAIN_PATH={}\n",
            self.port,
            self.path("nodes.cfg").display(),
            self.path("imex.sock").display(),
        );
        fs::write(self.path("imex.cfg"), config).unwrap();
    }

    fn write_hosts(&self, hosts: &[(&str, &str)]) {
        let mut text = String::new();
        for (address, name) in hosts {
            writeln!(text, "{address}\t{name}").unwrap();
        }
        fs::write(self.path("new"), text).unwrap();
        fs::rename(self.path("new"), self.path("hosts")).unwrap();
    }

    fn break_with(&self, faults: &str) {
        fs::write(self.path("imex-faults"), faults).unwrap();
    }

    fn start(&mut self) {
        let log = fs::File::create(self.path("log")).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_nvidia-imex"))
            // The root is where its name says.
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

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.as_ref().unwrap().id()).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    /// Its exit code.
    fn wait(&mut self) -> i32 {
        let child = self.child.as_mut().unwrap();
        child.wait().unwrap().code().unwrap()
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap()
    }

    fn ctl(&self, args: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_nvidia-imex-ctl"))
            .arg0(self.path("usr/bin/nvidia-imex-ctl"))
            .arg("-c")
            .arg(self.path("imex.cfg"))
            .args(args)
            .output()
            .unwrap()
    }

    fn state(&self) -> String {
        String::from_utf8(self.ctl(&["-q"]).stdout).unwrap()
    }

    /// The status of its connection to another; empty if it does not answer.
    fn link(&self, other: &str) -> String {
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

    fn until(&self, what: &str, is_true: impl Fn(&Self) -> bool) {
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
            // It may have ended.
            let _ = child.kill();
            child.wait().unwrap();
        }
    }
}

const HOSTS: [(&str, &str); 3] = [("127.0.1.1", "a"), ("127.0.1.2", "b"), ("127.0.1.3", "c")];

/// Started, and ready.
fn mk_nodes() -> [Node; 3] {
    let port = next_port();
    HOSTS.map(|(address, _)| {
        let mut node = Node::new(port, address, &HOSTS);
        node.start();
        node.until("ready", |node| node.state() == "READY\n");
        node
    })
}

#[test]
fn nodes_with_one_list_connect_to_each_other_and_know_when_one_leaves() {
    let [a, mut b, c] = mk_nodes();
    assert!(
        b.log().contains("Identified this node as ID 1,"),
        "{}",
        b.log()
    );
    for (node, others) in [(&a, ["1", "2"]), (&c, ["0", "1"])] {
        for other in others {
            node.until("connected", |node| node.link(other) == "CONNECTED");
        }
    }
    b.signal(Signal::SIGTERM);
    assert_eq!(b.wait(), 0);
    a.until("recovering", |a| a.link("1") == "RECOVERING");
    assert_eq!(a.link("2"), "CONNECTED");
    assert_eq!(b.ctl(&["-q"]).status.code(), Some(1));
    b.start();
    a.until("connected again", |a| a.link("1") == "CONNECTED");
}

#[test]
fn a_node_with_another_list_is_refused_and_refuses() {
    let [a, _, mut c] = mk_nodes();
    c.signal(Signal::SIGTERM);
    c.wait();
    c.write_list(&["a", "b", "c", "d"]);
    c.start();
    c.until("refused", |c| c.link("0") == "INVALID");
    a.until("refuses", |a| a.link("2") == "INVALID");
    assert!(c.log().contains("node map mismatch"), "{}", c.log());
}

#[test]
fn a_name_with_another_address_is_dialled_there_at_sigusr1_and_a_second_one_is_ignored() {
    let port = next_port();
    let elsewhere = [HOSTS[0], ("127.0.1.9", "b"), HOSTS[2]];
    let mut a = Node::new(port, "127.0.1.1", &HOSTS);
    let mut old = Node::new(port, "127.0.1.2", &HOSTS);
    a.start();
    old.start();
    a.until("connected", |a| a.link("1") == "CONNECTED");
    let mut new = Node::new(port, "127.0.1.9", &elsewhere);
    new.start();
    new.until("ready", |new| new.state() == "READY\n");
    a.write_hosts(&elsewhere);
    a.signal(Signal::SIGUSR1);
    let host = |a: &Node| {
        let answer: Value = serde_json::from_slice(&a.ctl(&["-N", "-j"]).stdout).unwrap();
        answer["nodes"]["0"]["connections"]["1"]["host"].clone()
    };
    a.until("dialled anew", |a| host(a) == "127.0.1.9");
    a.signal(Signal::SIGUSR1);
    a.until("ignored", |a| a.log().contains("SIGUSR1 ignored"));
    a.signal(Signal::SIGHUP);
    a.until("goes on", |a| a.state() == "READY\n");
}

#[test]
fn a_node_that_is_not_in_its_list_ends_and_so_does_one_whose_driver_is_in_use() {
    let port = next_port();
    let mut node = Node::new(port, "127.0.1.7", &HOSTS);
    node.start();
    assert_eq!(node.wait(), 1);
    assert!(
        node.log().contains("address of this node"),
        "{}",
        node.log()
    );
    let mut node = Node::new(port, "127.0.1.1", &HOSTS);
    node.break_with("IN_USE=1\n");
    node.start();
    assert_eq!(node.wait(), 1);
    assert!(node.log().contains("NV_ERR_IN_USE"), "{}", node.log());
}

#[test]
fn faults_are_what_their_names_say() {
    let port = next_port();
    let mut node = Node::new(port, "127.0.1.1", &HOSTS);
    node.break_with("WRONG_ID=1\nCRASH_AFTER_MS=1\n");
    node.start();
    assert_eq!(node.wait(), 1);
    assert!(node.log().contains("as ID 1,"), "{}", node.log());
    node.break_with("START_DELAY_MS=3600000\n");
    node.start();
    node.until("initializing", |node| node.state() == "INITIALIZING\n");
    node.break_with("STUCK=WAITING_FOR_PEERS\n");
    assert_eq!(node.state(), "WAITING_FOR_PEERS\n");
    for fault in ["HANG=1\n", "CTL_HANG=1\n"] {
        node.break_with(fault);
        assert!(hangs(&node), "{fault}");
    }
}

/// Whether `nvidia-imex-ctl -q` gives no answer for a while.
fn hangs(node: &Node) -> bool {
    let mut asking = Command::new(env!("CARGO_BIN_EXE_nvidia-imex-ctl"))
        .arg0(node.path("usr/bin/nvidia-imex-ctl"))
        .arg(format!("--u={}", node.path("imex.sock").display()))
        .arg("-q")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_millis(300));
    let hangs = asking.try_wait().unwrap().is_none();
    let _ = asking.kill();
    asking.wait().unwrap();
    hangs
}

#[test]
fn a_root_may_say_what_the_tool_answers() {
    let node = Node::new(next_port(), "127.0.1.1", &HOSTS);
    let socket = format!("--u={}", node.path("imex.sock").display());
    for (state, code, answer) in [
        ("INIT_GPU\n\n", 0, "INIT_GPU\n"),
        ("FAIL\n\n", 1, ""),
        ("READY\n/elsewhere\n", 1, ""),
    ] {
        fs::write(node.path("imex-state"), state).unwrap();
        let output = node.ctl(&[&socket, "-q"]);
        assert_eq!(output.status.code(), Some(code), "{state}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), answer);
    }
}
