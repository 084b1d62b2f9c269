//! The packages of this workspace, from `cargo metadata`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::error::Error;

/// The parts of `cargo metadata --no-deps` that this program needs.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    pub(crate) workspace_root: PathBuf,
    pub(crate) packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `null` for a normal dependency, otherwise `dev` or `build`.
    pub(crate) kind: Option<String>,
    /// Only dependencies inside the workspace have a path.
    pub(crate) path: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) kind: Vec<String>,
    pub(crate) src_path: PathBuf,
}

// === impl Workspace ===

impl Workspace {
    /// Runs `cargo metadata` with the cargo that runs this program.
    pub(crate) fn read() -> Result<Self, Error> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["metadata", "--no-deps", "--format-version", "1", "--locked"])
            .output()
            .map_err(Error::Cargo)?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Error::Metadata { message });
        }
        serde_json::from_slice(&output.stdout).map_err(Error::MetadataJson)
    }
}

// === impl Package ===

impl Package {
    /// Its directory below the workspace's root: `dra-shim/kubelet`.
    pub(crate) fn directory<'a>(&'a self, root: &Path) -> &'a Path {
        let directory = self.manifest_path.parent().unwrap_or(&self.manifest_path);
        directory.strip_prefix(root).unwrap_or(directory)
    }

    /// Its library and programs, without tests, benches, examples and build script.
    pub(crate) fn crates(&self) -> impl Iterator<Item = &Target> {
        const OTHERS: [&str; 4] = ["test", "bench", "example", "custom-build"];
        let targets = self.targets.iter();
        targets.filter(|target| {
            !target
                .kind
                .iter()
                .any(|kind| OTHERS.contains(&kind.as_str()))
        })
    }
}
