//! A node: its driver root, the files of its daemon, and the daemon as a process.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::api::Api;
use crate::built::built;
use crate::network::Network;

pub(crate) const GIVE_UP: Duration = Duration::from_secs(30);

/// kubelet's content of a pod's hosts file.
pub(crate) const KUBELETS_HOSTS: &str = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n";

pub(crate) struct Node {
    dir: tempfile::TempDir,
    pub(crate) name: String,
    pub(crate) address: String,
    port: u16,
    http_port: u16,
    daemon: Option<Child>,
}

impl Node {
    /// A node with a driver, but no daemon yet. `number` starts at 1.
    pub(crate) fn new(network: &Network, api: &Api, number: u8, driver: &[&str]) -> Self {
        let node = Self {
            dir: tempfile::tempdir().unwrap(),
            name: format!("node-{number}"),
            address: network.address(number),
            port: network.port,
            http_port: network.port + 1,
            daemon: None,
        };
        fs::write(node.path("kubeconfig"), api.kubeconfig()).unwrap();
        fs::write(node.path("hosts"), KUBELETS_HOSTS).unwrap();
        node.lay_out(driver);
        node
    }

    /// Lays the driver root out with these options of `hack/mock-driver.sh`.
    pub(crate) fn lay_out(&self, options: &[&str]) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/mock-driver.sh");
        let output = Command::new(script)
            .arg(self.path("driver"))
            .arg("--library")
            .arg(&built().library)
            .args(options)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{options:?}: {errors}");
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    /// Sets the faults of the mocks.
    pub(crate) fn break_with(&self, faults: &str) {
        fs::write(self.path("driver/new"), faults).unwrap();
        fs::rename(self.path("driver/new"), self.path("driver/imex-faults")).unwrap();
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_compute-domain-daemon"));
        command
            .env_clear()
            .env("NODE_NAME", &self.name)
            .env("POD_NAME", format!("pod-of-{}", self.name))
            .env("POD_NAMESPACE", "imex")
            .env("POD_UID", self.pod_uid())
            .env("POD_IP", &self.address)
            .env("KUBECONFIG", self.path("kubeconfig"))
            .env("DRIVER_ROOT_CTR_PATH", self.path("driver"))
            .env("IMEXD_DIR", self.path("imexd"))
            .env("HOSTS_FILE", self.path("hosts"))
            .env(
                "HTTP_ENDPOINT",
                format!("{}:{}", self.address, self.http_port),
            )
            .env("IMEX_PORT", self.port.to_string())
            // All nodes share one loopback interface.
            .env(
                "IMEX_COMMAND_PORT",
                (self.port + 2 + u16::from(self.number())).to_string(),
            )
            .env("IMEX_QUERY_TIMEOUT", "1")
            .env("IMEX_MOCK_HOSTS", self.path("hosts"))
            .env("IMEX_MOCK_ADDRESS", &self.address)
            .stdin(Stdio::null());
        command
    }

    fn number(&self) -> u8 {
        self.name.rsplit('-').next().unwrap().parse().unwrap()
    }

    pub(crate) fn pod_uid(&self) -> String {
        format!("uid-of-{}", self.name)
    }

    pub(crate) fn start(&mut self) {
        let log = File::create(self.path("log")).unwrap();
        let mut command = self.command();
        command.stdout(log.try_clone().unwrap()).stderr(log);
        self.daemon = Some(command.spawn().unwrap());
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.daemon.as_ref().unwrap().id()).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).unwrap();
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.daemon.take().unwrap().wait().unwrap()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// The PID of each `nvidia-imex` that the daemon has started, in order.
    pub(crate) fn imex_pids(&self) -> Vec<i32> {
        let log = self.log();
        let lines = log
            .lines()
            .filter(|it| it.contains("nvidia-imex has started"));
        let words = lines.filter_map(|line| line.split_once(" pid="));
        words
            .filter_map(|(_, rest)| rest.split(' ').next()?.parse().ok())
            .collect()
    }

    pub(crate) fn signal_imex(&self, signal: Signal) {
        let pid = *self.imex_pids().last().unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    /// `state.json`; null if there is none.
    pub(crate) fn state(&self) -> Value {
        let text = fs::read(self.path("imexd/state.json")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    pub(crate) fn phase(&self) -> String {
        self.state()["phase"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// The answer's status and body; empty if the daemon does not answer.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        let ask = || {
            let mut stream = TcpStream::connect((self.address.as_str(), self.http_port))?;
            stream.set_read_timeout(Some(GIVE_UP))?;
            write!(
                stream,
                "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            )?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok::<_, std::io::Error>(answer)
        };
        let answer = ask().unwrap_or_default();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
        (status.unwrap_or(0), body.to_owned())
    }

    pub(crate) fn metric(&self, series: &str) -> u64 {
        let (_, text) = self.get("/metrics");
        let line = text.lines().find_map(|line| line.strip_prefix(series));
        line.unwrap_or_else(|| panic!("no {series}: {text}"))
            .trim()
            .parse()
            .unwrap()
    }

    /// Exit code and output of `compute-domain-daemon check`.
    pub(crate) fn check(&self) -> (i32, String) {
        let output = self.command().arg("check").output().unwrap();
        let printed = [output.stdout, output.stderr].concat();
        (
            output.status.code().unwrap(),
            String::from_utf8(printed).unwrap(),
        )
    }

    /// The status of its connection to the member with index `other`, according to its `nvidia-imex`.
    pub(crate) fn link(&self, own: usize, other: usize) -> String {
        let output = Command::new(built().programs.join("nvidia-imex-ctl"))
            .arg(format!("--u={}", self.path("imexd/imexd.sock").display()))
            .args(["-N", "-j"])
            .output()
            .unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let status = &answer["nodes"][own.to_string()]["connections"][other.to_string()]["status"];
        status.as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn until(&self, what: &str, is_true: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !is_true(self) {
            let (state, log) = (self.state(), self.log());
            assert!(began.elapsed() < GIVE_UP, "not {what}: {state}\n{log}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn until_ready(&self) {
        self.until("ready", |node| {
            node.phase() == "ready" && node.get("/readyz").0 == 200
        });
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            // It may have exited.
            let _ = daemon.kill();
            daemon.wait().unwrap();
        }
    }
}

/// Whether the process exists and is not a zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}
