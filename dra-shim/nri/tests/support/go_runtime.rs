//! A runtime with NRI's Go library: `tests/go_runtime`, built with the installed Go.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::LIMIT;

/// A version of the library, and a runtime with it.
#[derive(Clone, Copy, Debug)]
pub struct Version {
    pub nri: &'static str,
    runtime: &'static str,
    pub of_runtime: &'static str,
    /// Its go.mod file.
    modules: &'static str,
}

/// The versions in containerd 1.7, 2.0 and 2.1, CRI-O 1.34, containerd 2.2, and 2.3.
pub const VERSIONS: [Version; 5] = [
    Version {
        nri: "0.6.1",
        runtime: "containerd",
        of_runtime: "v1.7.16",
        modules: "nri-0.6.1.mod",
    },
    Version {
        nri: "0.8.0",
        runtime: "containerd",
        of_runtime: "v2.1.5",
        modules: "nri-0.8.0.mod",
    },
    Version {
        nri: "0.9.1",
        runtime: "cri-o",
        of_runtime: "1.34.0",
        modules: "nri-0.9.1-cri-o-1.34.mod",
    },
    Version {
        nri: "0.11.0",
        runtime: "containerd",
        of_runtime: "v2.2.1",
        modules: "nri-0.11.0.mod",
    },
    Version {
        nri: "0.12.0",
        runtime: "containerd",
        of_runtime: "v2.3.0",
        modules: "go.mod",
    },
];

/// A running Go runtime. Dropping it kills it.
pub struct GoRuntime {
    process: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    log: PathBuf,
}

/// Builds the program. `None` without Go: the caller's test passes, with a note past libtest's
/// capture. With `IMEX_REQUIRE_GO` set it fails instead.
pub fn program(version: Version) -> Option<PathBuf> {
    static BUILDING: Mutex<()> = Mutex::new(());
    let go = |arguments: &[&str]| {
        let mut go = std::process::Command::new("go");
        go.args(arguments)
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/go_runtime"))
            .env("GOFLAGS", "-mod=readonly -buildvcs=false")
            .env("GOTOOLCHAIN", "local")
            .env("CGO_ENABLED", "0")
            .output()
    };
    if go(&["version"]).is_err() {
        assert!(
            std::env::var_os("IMEX_REQUIRE_GO").is_none(),
            "IMEX_REQUIRE_GO is set, but there is no `go` on PATH"
        );
        let text = "\nSKIPPED: no `go` on PATH, so NRI in Go was not tested\n";
        std::io::stderr().write_all(text.as_bytes()).unwrap();
        return None;
    }
    let _one_at_a_time = BUILDING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("nri-{}", version.nri));
    let modules = format!("-modfile={}", version.modules);
    let tags = if version.nri == "0.12.0" {
        "-tags="
    } else {
        "-tags=before_0_12"
    };
    let built = go(&[
        "build",
        tags,
        &modules,
        "-o",
        program.to_str().unwrap(),
        ".",
    ])
    .unwrap();
    assert!(
        built.status.success(),
        "{version:?} in Go failed; its first build needs the network:\n{}",
        String::from_utf8_lossy(&built.stderr)
    );
    Some(program)
}

impl GoRuntime {
    /// Starts it and waits until it listens. Its log is a file beside the socket.
    pub async fn start(
        program: &Path,
        socket: &Path,
        plugins: &Path,
        version: Version,
        pods: usize,
    ) -> Self {
        let log = socket.with_extension("log");
        let mut process = Command::new(program)
            .args([socket, plugins])
            .args([version.runtime, version.of_runtime, &pods.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).unwrap())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let commands = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut runtime = Self {
            process,
            commands,
            answers,
            log,
        };
        // The runtime synchronizes a plugin that it starts before it listens.
        while runtime.next().await["what"] != "started" {}
        runtime
    }

    /// Waits for the next line.
    pub async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(LIMIT, self.answers.next_line()).await;
        let line = line.ok().and_then(Result::unwrap);
        let line = line.unwrap_or_else(|| panic!("no line from the runtime:\n{}", self.log()));
        serde_json::from_str(&line).unwrap()
    }

    /// The runtime's log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Sends a command, and returns the answer.
    pub async fn ask(&mut self, what: &str, name: &str, bytes: usize) -> Value {
        let command = json!({"do": what, "name": name, "bytes": bytes}).to_string();
        self.commands
            .write_all(format!("{command}\n").as_bytes())
            .await
            .unwrap();
        let answer = self.next().await;
        assert_eq!(answer["what"], what, "{answer}");
        answer
    }

    /// Kills the runtime with SIGKILL, like a crash.
    pub async fn kill(mut self) {
        self.process.kill().await.unwrap();
    }
}
