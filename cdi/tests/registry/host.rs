//! Directories of specs in a temporary place.

use std::fs;
use std::path::{Path, PathBuf};

use imex_cdi::{QualifiedName, Registry};
use serde_json::json;
use tempfile::TempDir;

pub(crate) const KIND: &str = "example.com/lamp";

/// A host with `/etc/cdi` and `/var/run/cdi`, as `low` and `high`.
pub(crate) struct Host {
    root: TempDir,
}

impl Host {
    pub(crate) fn new() -> Self {
        let host = Self {
            root: TempDir::new().unwrap(),
        };
        for dir in host.dirs() {
            fs::create_dir(dir).unwrap();
        }
        host
    }

    /// A path on the host.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    pub(crate) fn dirs(&self) -> [PathBuf; 2] {
        [self.path("low"), self.path("high")]
    }

    /// Writes a file, with the directories it needs.
    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Writes a valid spec of [`KIND`] with these devices.
    pub(crate) fn spec(&self, path: &str, devices: &[&str]) {
        self.write(path, spec(KIND, devices));
    }

    pub(crate) fn load(&self) -> Registry {
        Registry::load(&self.dirs())
    }

    /// `path` without the place where the host happens to be.
    pub(crate) fn local(&self, path: &Path) -> String {
        let path = path.strip_prefix(self.root.path()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// `name` and its file, of each device that resolves.
    pub(crate) fn devices(&self, registry: &Registry) -> Vec<(String, String)> {
        let devices = registry.devices();
        let devices = devices.map(|found| (found.name().to_string(), self.local(&found.file.path)));
        devices.collect()
    }

    /// The file that defines the lamp `device`.
    pub(crate) fn file_of(&self, registry: &Registry, device: &str) -> String {
        let found = registry.resolve(&lamp(device)).unwrap();
        assert_eq!(found.name(), lamp(device));
        self.local(&found.file.path)
    }
}

/// A device of [`KIND`].
pub(crate) fn lamp(device: &str) -> QualifiedName {
    format!("{KIND}={device}").parse().unwrap()
}

/// A valid spec.
pub(crate) fn spec(kind: &str, devices: &[&str]) -> String {
    let device = |name: &&str| json!({"name": name, "containerEdits": {"env": ["A=b"]}});
    let devices: Vec<_> = devices.iter().map(device).collect();
    json!({"cdiVersion": "0.6.0", "kind": kind, "devices": devices}).to_string()
}
