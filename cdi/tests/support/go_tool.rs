//! Programs that answer with libraries in Go, run with the user's Go.

use std::io::{Seek as _, Write as _};
use std::process::Command;

/// A Go tool chain.
pub(crate) struct Go;

impl Go {
    /// Returns `None` without Go: the caller's test passes, and prints past libtest's capture what
    /// was `skipped`. With `IMEX_REQUIRE_GO` set it fails instead.
    pub(crate) fn find(skipped: &str) -> Option<Self> {
        if Command::new("go").arg("version").output().is_ok() {
            return Some(Self);
        }
        assert!(
            std::env::var_os("IMEX_REQUIRE_GO").is_none(),
            "IMEX_REQUIRE_GO is set and there is no `go` on PATH"
        );
        let text = format!("\nSKIPPED: no `go` on PATH, so {skipped}\n");
        std::io::stderr().write_all(text.as_bytes()).unwrap();
        None
    }

    /// The program's answers to these lines of JSON, a line for each. `arguments` of `go run` name
    /// its package in the directory below `tests`. Offline once the modules are in Go's cache,
    /// which is the user's.
    #[expect(
        clippy::unused_self,
        reason = "there is one only if there is a tool chain"
    )]
    pub(crate) fn ask(&self, directory: &str, arguments: &[&str], lines: &str) -> String {
        let mut input = tempfile::tempfile().unwrap();
        input.write_all(lines.as_bytes()).unwrap();
        input.rewind().unwrap();
        let out = Command::new("go")
            .arg("run")
            .args(arguments)
            .current_dir(format!("{}/tests/{directory}", env!("CARGO_MANIFEST_DIR")))
            .env("GOFLAGS", "-mod=readonly -buildvcs=false")
            .env("GOTOOLCHAIN", "local")
            .env("CGO_ENABLED", "0")
            .stdin(input)
            .output()
            .unwrap();
        assert!(
            out.status.success(),
            "{arguments:?} of {directory} in Go failed; its first build needs the network:\n{}",
            String::from_utf8_lossy(&out.stderr)
        );
        String::from_utf8(out.stdout).unwrap()
    }
}
