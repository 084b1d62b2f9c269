//! A real program, started with a row's flags.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use serde_json::Value;

use crate::Answer;
use crate::table::Row;

/// After this time, a program counts as hung: it normally logs everything within milliseconds.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The target of the log lines about settings, in both programs.
const SETTINGS_TARGET: &str = "daemon_runtime::args";

/// An API server that does not exist, so that a program with valid settings does not get one.
const KUBECONFIG: &str = r#"{
    "apiVersion": "v1", "kind": "Config", "current-context": "none",
    "clusters": [{ "name": "none", "cluster": { "server": "http://127.0.0.1:1" } }],
    "users": [{ "name": "none", "user": {} }],
    "contexts": [{ "name": "none", "context": { "cluster": "none", "user": "none" } }]
}"#;

pub(crate) struct Program {
    name: &'static str,
    path: PathBuf,
    /// Its host directory and kubeconfig.
    dir: PathBuf,
}

impl Program {
    /// A program of the workspace. Cargo puts it next to this test: `DIR/PROGRAM`, `DIR/deps/TEST`.
    pub(crate) fn new(name: &'static str) -> Self {
        let test = std::env::current_exe().unwrap();
        let path = test.ancestors().nth(2).unwrap().join(name);
        assert!(
            path.exists(),
            "{} is not built: see the top of main.rs",
            path.display()
        );
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("modes")
            .join(name);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("kubeconfig"), KUBECONFIG).unwrap();
        Self { name, path, dir }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Its error, or its settings logged at start.
    pub(crate) fn answer(&self, row: &Row) -> Answer {
        let mut child = self.start(row);
        match read_answer(&lines(&mut child), row) {
            Ok(answer) => {
                child.kill().unwrap();
                child.wait().unwrap();
                answer
            }
            Err(line) => {
                assert_eq!(child.wait().unwrap().code(), Some(1), "{line}");
                Answer::refused(&code_of(&line, row))
            }
        }
    }

    fn start(&self, row: &Row) -> Child {
        let dir = |name: &str| self.dir.join(name);
        let mut command = Command::new(&self.path);
        command
            .arg(format!("--feature-gates={}", row.gates))
            .arg(format!("--imex-mode={}", row.mode))
            .arg(format!("--imex-isolation={}", row.isolation))
            .arg(format!("--imex-sharing={}", row.sharing))
            .arg(format!("--imex-slots={}", row.slots))
            .arg(format!("--imex-channel-count={}", row.channel_count))
            .arg(format!("--imex-group-claims={}", row.group_claims))
            .arg(format!("--imex-without-clique={}", row.without_clique))
            .arg(format!("--imex-degraded-fabric={}", row.degraded_fabric))
            .env_clear()
            .env("LOGGING_FORMAT", "json")
            .env("KUBECONFIG", dir("kubeconfig"))
            .stderr(Stdio::piped());
        // The plugin does not have this option; the controller does not have the others.
        command.env("GPU_CLIQUE_LABEL_ENABLED", "true");
        command
            .env("NODE_NAME", "node")
            .env("KUBELET_ROOT", dir("kubelet"))
            .env("CDI_ROOT", dir("cdi"))
            .env("DRIVER_ROOT_CTR_PATH", dir("no-driver"));
        command.spawn().unwrap()
    }
}

fn group_claims(log: &Value) -> &'static str {
    match log["group_claims"].as_bool() {
        Some(true) => " groups",
        _ => "",
    }
}

/// Its lines on stderr, from a thread that ends with the program.
fn lines(child: &mut Child) -> Receiver<String> {
    let stderr = BufReader::new(child.stderr.take().unwrap());
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in stderr.lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The settings, which are complete when another target logs; or the line of the error with which it
/// ended.
fn read_answer(lines: &Receiver<String>, row: &Row) -> Result<Answer, String> {
    let mut answer = None;
    loop {
        let line = lines
            .recv_timeout(TIMEOUT)
            .unwrap_or_else(|err| panic!("{:?}: {err}, after {answer:?}", row.gates));
        if line.starts_with("Error: ") {
            assert_eq!(
                lines.recv_timeout(TIMEOUT),
                Err(RecvTimeoutError::Disconnected)
            );
            return Err(line);
        }
        let log: Value = serde_json::from_str(&line).unwrap();
        let text = |name: &str| log[name].as_str().unwrap_or_default().to_owned();
        match (&mut answer, text("target") == SETTINGS_TARGET) {
            (None, false) => {}
            (None, true) => {
                answer = Some(Answer {
                    result: [
                        text("mode"),
                        text("isolation"),
                        text("sharing"),
                        log["channel_count"].to_string() + group_claims(&log),
                        text("without_clique"),
                        text("degraded_fabric"),
                    ]
                    .join(" "),
                    logged: Vec::new(),
                });
            }
            (Some(answer), true) if text("level") == "WARN" => answer.logged.push(text("message")),
            (Some(answer), true) => {
                answer
                    .logged
                    .push(format!("{}={}", text("gate"), log["value"]));
            }
            (Some(_), false) => return Ok(answer.unwrap()),
        }
    }
}

/// The code of the error of the options for the row, if the line is the log line of that
/// error; otherwise the line.
fn code_of(line: &str, row: &Row) -> String {
    match row.options().resolve() {
        Err(err) if line == format!("Error: {err}; {}", err.hint()) => err.code().to_owned(),
        _ => line.to_owned(),
    }
}
