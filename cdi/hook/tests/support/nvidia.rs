//! NVIDIA's hook, built from its Go module.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

const PACKAGE: &str = "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-cdi-hook";

/// A program in a directory that is removed with it.
pub(crate) struct Nvidia {
    path: PathBuf,
    _dir: TempDir,
}

/// Builds the program. Returns `None` without Go, with a message about what was `skipped`.
pub(crate) fn build(skipped: &str) -> Option<Nvidia> {
    if Command::new("go").arg("version").output().is_err() {
        assert!(
            std::env::var_os("IMEX_REQUIRE_GO").is_none(),
            "IMEX_REQUIRE_GO is set and there is no `go` on PATH"
        );
        let text = format!("\nSKIPPED: no `go` on PATH, so {skipped}\n");
        std::io::stderr().write_all(text.as_bytes()).unwrap();
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nvidia-cdi-hook");
    let built = Command::new("go")
        .args(["build", "-ldflags=-s -w", "-o"])
        .arg(&path)
        .arg(PACKAGE)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oracle"))
        // Its NVML bindings are C.
        .env("CGO_ENABLED", "1")
        .env("CGO_CFLAGS", "-w -O1")
        .env("GOFLAGS", "-mod=readonly -buildvcs=false")
        .env("GOTOOLCHAIN", "local")
        .output()
        .unwrap();
    assert!(
        built.status.success(),
        "NVIDIA's hook did not build; the first build needs the network:\n{}",
        String::from_utf8_lossy(&built.stderr)
    );
    Some(Nvidia { path, _dir: dir })
}

// === impl Nvidia ===

impl Nvidia {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
