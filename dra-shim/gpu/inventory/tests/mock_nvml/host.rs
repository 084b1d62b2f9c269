//! A mock host in a temporary directory, and reading it.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpu_inventory::{Inventory, Sources};
use mock_host::{MockHost, library};
use nvml_session::{DriverRoot, SessionProgram};

/// Far longer than any call of the mock takes.
pub(crate) const GIVE_UP: Duration = Duration::from_secs(60);

pub(crate) struct Host {
    host: MockHost,
    dir: tempfile::TempDir,
}

// === impl Host ===

impl Host {
    pub(crate) fn new(inventory: &Inventory) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let host = MockHost::new(dir.path(), inventory, library());
        Self { host, dir }
    }

    pub(crate) fn read(&self, deadline: Duration) -> Inventory {
        let exe = std::env::current_exe().unwrap();
        gpu_inventory::read(&Sources {
            driver_root: DriverRoot::new(self.dir.path()),
            proc: self.path("proc"),
            sys: self.path("sys"),
            program: Some(SessionProgram::new(
                exe,
                ["--exact", "child", "--ignored"],
                deadline,
            )),
            deadline,
        })
    }
}

impl Deref for Host {
    type Target = MockHost;

    fn deref(&self) -> &MockHost {
        &self.host
    }
}

/// The inventory in a file of `tests/inventories`.
pub(crate) fn inventory(name: &str) -> Inventory {
    let path = inventories().join(format!("{name}.json"));
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

pub(crate) fn inventories() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inventories")
}
