//! Containers with the GPUs of a mock host: the image of the probe, and the spec of `cdi-gen generate gpu`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::host::MockHost;

/// Makes the root of an image in `image`: the probe, its loader and the C library, but no file of the driver. The mock of
/// NVML finds its file at `/nvml-mock.json` (`NVML_MOCK_CONFIG`). Needs `cc` and `ldd`.
pub fn make_probe_image(host: &MockHost, image: &Path) {
    fs::create_dir_all(image.join("etc")).unwrap();
    let probe = image.join("probe");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cuda/probe.c");
    run(Command::new("cc")
        .arg("-o")
        .args([&probe, &source])
        .arg("-L")
        .arg(host.path("usr/lib64"))
        .args(["-l:libcuda.so.1", "-l:libnvidia-ml.so.1"]));
    // The mocks need libgcc_s, which NVIDIA's libraries do not.
    for file in [probe, host.path("usr/lib64/libcuda.so.1")] {
        for word in run(Command::new("ldd").arg(&file)).split_whitespace() {
            if word.starts_with('/') {
                let copy = image.join(word.trim_start_matches('/'));
                fs::create_dir_all(copy.parent().unwrap()).unwrap();
                fs::copy(word, copy).unwrap();
            }
        }
    }
    for file in ["nvml-mock.json", "inventory.json"] {
        fs::copy(host.path("usr/lib64").join(file), image.join(file)).unwrap();
    }
}

/// Runs `cdi-gen generate gpu` where `/proc` and `/sys` are the mock host's. Needs root.
pub fn generate_gpu_spec(cdi_gen: &Path, host: &MockHost, hook: &Path, spec: &Path) -> Output {
    host.command()
        .arg(cdi_gen)
        .args(["generate", "gpu", "--driver-root"])
        .arg(host.path(""))
        .arg("--hook")
        .arg(hook)
        .arg("--output")
        .arg(spec)
        .output()
        .unwrap()
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}
