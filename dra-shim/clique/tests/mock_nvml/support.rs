//! A driver root in a temporary directory around the workspace's mock of NVML,
//! loaded by the real dlopen.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use nvml_clique::{DriverRoot, Fabric, FabricProbe, Gpu, NvmlProbe};

pub(crate) const RACK: &str = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
pub(crate) const OTHER_RACK: &str = "6ba7b811-9dad-11d1-80b4-00c04fd430c8";

pub(crate) struct MockDriver {
    dir: tempfile::TempDir,
}

impl MockDriver {
    /// A root with the library and `config` beside it.
    pub(crate) fn new(config: &str) -> Self {
        let driver = Self::without_library();
        driver.install_library();
        driver.configure(config);
        driver
    }

    pub(crate) fn without_library() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("usr/lib64")).unwrap();
        Self { dir }
    }

    /// A library without `symbols`: their first letter in the file is changed, so that dlsym
    /// does not find them.
    pub(crate) fn lacking(symbols: &[&str], config: &str) -> Self {
        let driver = Self::without_library();
        let mut bytes = fs::read(library()).unwrap();
        for symbol in symbols {
            remove(&mut bytes, symbol);
        }
        driver.install(&bytes);
        driver.configure(config);
        driver
    }

    pub(crate) fn install_library(&self) {
        self.install(&fs::read(library()).unwrap());
    }

    pub(crate) fn install(&self, library: &[u8]) {
        self.replace("libnvidia-ml.so.1", library);
    }

    pub(crate) fn configure(&self, config: &str) {
        self.replace("nvml-mock.json", config.as_bytes());
    }

    /// The NVML calls during `read`.
    pub(crate) fn calls(&self, read: impl FnOnce()) -> Vec<String> {
        let file = self.dir.path().join("usr/lib64/nvml-mock.calls");
        fs::write(&file, "").unwrap();
        read();
        let calls = fs::read_to_string(&file).unwrap();
        fs::remove_file(&file).unwrap();
        calls.lines().map(str::to_owned).collect()
    }

    pub(crate) fn remove_library(&self) {
        fs::remove_file(self.dir.path().join("usr/lib64/libnvidia-ml.so.1")).unwrap();
    }

    pub(crate) fn probe(&self) -> NvmlProbe {
        NvmlProbe::new(DriverRoot::new(self.dir.path()))
    }

    pub(crate) fn gpus(&self) -> Vec<Gpu> {
        self.probe().read().unwrap()
    }

    pub(crate) fn fabric(&self) -> Fabric {
        fabric(self.root())
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    fn replace(&self, name: &str, bytes: &[u8]) {
        let dir = self.dir.path().join("usr/lib64");
        fs::write(dir.join("new"), bytes).unwrap();
        fs::rename(dir.join("new"), dir.join(name)).unwrap();
    }
}

/// A configuration with these devices and, after them, `rest`.
pub(crate) fn devices(devices: &[String], rest: &str) -> String {
    format!(
        r#"{{"driver_version": "580.82.07", "devices": [{}]{rest}}}"#,
        devices.join(",")
    )
}

/// A device whose fabric is these fields.
pub(crate) fn device(index: usize, fabric: &str) -> String {
    format!(r#"{{"name": "NVIDIA GB200", "uuid": "GPU-{index}", "fabric": {{{fabric}}}}}"#)
}

/// A registered device, healthy.
pub(crate) fn member(index: usize, cluster: &str, clique: u32) -> String {
    let fabric = format!(
        r#""state": "completed", "cluster_uuid": "{cluster}", "clique_id": {clique},
           "health_mask": 426, "health_summary": 1"#
    );
    device(index, &fabric)
}

/// Two GPUs of one clique.
pub(crate) fn rack() -> String {
    devices(&[member(0, RACK, 5), member(1, RACK, 5)], "")
}

/// The crate's report of a root.
pub(crate) fn fabric(root: &Path) -> Fabric {
    match NvmlProbe::new(DriverRoot::new(root)).read() {
        Ok(gpus) => Fabric::from_gpus(&gpus),
        Err(error) => error.into(),
    }
}

fn remove(bytes: &mut [u8], symbol: &str) {
    let name = [b"\0", symbol.as_bytes(), b"\0"].concat();
    let places: Vec<_> = (0..bytes.len())
        .filter(|&at| bytes[at..].starts_with(&name))
        .collect();
    assert!(!places.is_empty(), "the mock has no {symbol}");
    for at in places {
        bytes[at + 1] = b'x';
    }
}

/// The mock, built by the cargo that runs these tests.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "-p", "nvml-mock"])
            .arg("--message-format=json")
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "cannot build nvml-mock: {errors}");
        let messages = String::from_utf8(built.stdout).unwrap();
        let file = messages
            .split('"')
            .find(|text| text.ends_with("/libnvml_mock.so"));
        file.expect("cargo names the library it built").into()
    })
}
