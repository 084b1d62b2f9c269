//! The mocks of nvidia-imex and NVML, built by the cargo that runs these tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Paths of the built files.
pub(crate) struct Built {
    pub(crate) library: PathBuf,
    /// The directory of the programs.
    pub(crate) programs: PathBuf,
}

pub(crate) fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let output = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "-p", "nvml-mock", "-p", "imex-mock"])
            .arg("--message-format=json")
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cannot build the mocks: {errors}");
        let messages = String::from_utf8(output.stdout).unwrap();
        let file = |name: &str| {
            let found = messages.split('"').find(|text| text.ends_with(name));
            PathBuf::from(found.expect("cargo names what it has built"))
        };
        Built {
            library: file("/libnvml_mock.so"),
            programs: file("/nvidia-imex").parent().map(Path::to_owned).unwrap(),
        }
    })
}
