//! A mock host in a temporary directory, made by the workspace's program `mock-host`, and reading it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use gpu_inventory::{Inventory, Sources};
use nvml_session::{DriverRoot, SessionProgram};
use serde_json::{Value, json};

/// Far longer than any call of the mock takes.
pub(crate) const GIVE_UP: Duration = Duration::from_secs(60);

pub(crate) struct Host {
    dir: tempfile::TempDir,
}

// === impl Host ===

impl Host {
    pub(crate) fn new(inventory: &Inventory) -> Self {
        let host = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        let file = host.path("inventory.json");
        fs::write(&file, serde_json::to_string(inventory).unwrap()).unwrap();
        let made = Command::new(built("mock-host", "/mock-host"))
            .args([&file, &host.path("")])
            .arg(built("nvml-mock", "/libnvml_mock.so"))
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&made.stderr);
        assert!(made.status.success(), "{errors}");
        host
    }

    pub(crate) fn read(&self, deadline: Duration) -> Inventory {
        gpu_inventory::read(&Sources {
            driver_root: self.root(),
            proc: self.path("proc"),
            sys: self.path("sys"),
            program: Some(program(deadline)),
            deadline,
        })
    }

    pub(crate) fn root(&self) -> DriverRoot {
        DriverRoot::new(self.dir.path())
    }

    /// Lets calls fail, hang or abort: more members of `nvml-mock.json`.
    pub(crate) fn inject(&self, faults: &Value) {
        let mut config = json!({"driver_version": "0", "inventory": "inventory.json"});
        let members = faults.as_object().unwrap().clone();
        config.as_object_mut().unwrap().extend(members);
        self.write("usr/lib64/nvml-mock.json.new", &config.to_string());
        let path = self.path("usr/lib64/nvml-mock.json");
        fs::rename(path.with_extension("json.new"), path).unwrap();
    }

    pub(crate) fn remove(&self, path: &str) {
        fs::remove_dir_all(self.path(path)).unwrap();
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        fs::write(self.path(path), text).unwrap();
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }
}

/// This program, which then runs the test `child`.
pub(crate) fn program(deadline: Duration) -> SessionProgram {
    let exe = std::env::current_exe().unwrap();
    SessionProgram::new(exe, ["--exact", "child", "--ignored"], deadline)
}

/// The inventory in a file of `tests/inventories`.
pub(crate) fn inventory(name: &str) -> Inventory {
    let path = inventories().join(format!("{name}.json"));
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

pub(crate) fn inventories() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inventories")
}

/// The file with this end of a package of the workspace, built by the cargo that runs these tests.
fn built(package: &str, end: &'static str) -> PathBuf {
    static BUILT: OnceLock<std::sync::Mutex<Vec<(&'static str, PathBuf)>>> = OnceLock::new();
    let mut built = BUILT.get_or_init(Default::default).lock().unwrap();
    if let Some((_, file)) = built.iter().find(|it| it.0 == end) {
        return file.clone();
    }
    let output = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "-p", package])
        .arg("--message-format=json")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cannot build {package}: {errors}");
    let messages = String::from_utf8(output.stdout).unwrap();
    let is_it = |text: &&str| text.ends_with(end) && Path::new(text).is_file();
    let file = messages.split('"').find(is_it);
    let file = PathBuf::from(file.expect("cargo names the file it built"));
    built.push((end, file.clone()));
    file
}
