//! NVIDIA's generator: the program in `main.go`, run with the user's Go and C compiler.

use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::process::Command;

use imex_cdi::ContainerEdits;
use serde::Deserialize;
use serde_json::json;

/// The generator's answer for a root.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    pub(crate) edits: Option<ContainerEdits>,
    pub(crate) error: String,
    /// The time of one run in the program.
    pub(crate) microseconds: u64,
}

/// Returns `None` without Go: the caller's test passes, and prints past libtest's capture that nothing was
/// compared. With `IMEX_REQUIRE_GO` set it fails instead.
pub(crate) fn answers(roots: &[(&Path, &str)]) -> Option<Vec<Answer>> {
    if Command::new("go").arg("version").output().is_err() {
        assert!(
            std::env::var_os("IMEX_REQUIRE_GO").is_none(),
            "IMEX_REQUIRE_GO is set and there is no `go` on PATH"
        );
        crate::say("\nSKIPPED: no `go` on PATH, so nothing was compared with NVIDIA's generator\n");
        return None;
    }
    let requests = roots
        .iter()
        .map(|(root, version)| json!({"root": root, "version": version}));
    let requests: Vec<String> = requests.map(|request| request.to_string()).collect();
    let answers = ask(&requests.join("\n"));
    let answers: Vec<Answer> = answers
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), roots.len());
    Some(answers)
}

/// Offline once the modules are in Go's cache, which is the user's.
fn ask(lines: &str) -> String {
    let mut input = tempfile::tempfile().unwrap();
    input.write_all(lines.as_bytes()).unwrap();
    input.rewind().unwrap();
    let out = Command::new("go")
        .args(["run", "."])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle"))
        .env("GOFLAGS", "-mod=readonly -buildvcs=false")
        .env("GOTOOLCHAIN", "local")
        // The bindings of NVML need C, and its header calls its own functions deprecated.
        .env("CGO_ENABLED", "1")
        .env("CGO_CFLAGS", "-w")
        .stdin(input)
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "the oracle in Go failed; its first build needs the network and a C compiler:\n{}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).unwrap()
}
