use nvidia_driver_files::find_version;
use nvml_session::DriverRoot;

use crate::support::{Root, VERSION};

fn found(root: &Root) -> String {
    match find_version(&DriverRoot::new(root.path())) {
        Ok(version) => version.to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_version_is_in_the_names_of_cuda_and_nvml() {
    let root = Root::new();
    assert_eq!(
        found(&root),
        "the driver root has no libcuda.so or libnvidia-ml.so with a version in its name"
    );
    root.library(
        &format!("/usr/lib64/libnvidia-ml.so.{VERSION}"),
        "libnvidia-ml.so.1",
    )
    .link("/usr/lib64/libnvidia-ml.so.1", "x");
    assert_eq!(found(&root), VERSION);
    root.driver("/usr/lib/x86_64-linux-gnu");
    assert_eq!(found(&root), VERSION);
    root.library("/usr/lib64/libcuda.so.570.1", "libcuda.so.1");
    assert_eq!(
        found(&root),
        "the driver root has libraries of several versions: 570.1, 580.82.07"
    );
}

#[test]
fn a_tegra_system_is_named() {
    let root = Root::new();
    root.library(
        "/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1.1",
        "libcuda.so.1",
    )
    .link(
        "/usr/lib/aarch64-linux-gnu/libcuda.so.1.1",
        "tegra/libcuda.so.1.1",
    );
    assert_eq!(
        found(&root),
        "libcuda.so.1.1 is a library of a Tegra system"
    );
}
