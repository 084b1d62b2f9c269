use nvidia_driver_files::{DriverFiles, Link};

use crate::support::Root;

fn target<'a>(files: &'a DriverFiles, path: &str) -> Option<&'a str> {
    let mut links = files.links.iter();
    let link: &Link = links.find(|link| link.path == path)?;
    Some(&link.target)
}

#[test]
fn the_names_that_programs_load_become_links() {
    let root = Root::new();
    root.driver("/usr/lib64")
        .library(
            "/usr/lib64/libGLX_nvidia.so.580.82.07",
            "libGLX_nvidia.so.0",
        )
        .library(
            "/usr/lib64/libnvidia-opticalflow.so.580.82.07",
            "libnvidia-opticalflow.so.1",
        )
        .library(
            "/usr/lib64/libnvidia-allocator.so.580.82.07",
            "libnvidia-allocator.so.1",
        );
    let files = root.find();
    for (path, expected) in [
        ("libcuda.so.1", "libcuda.so.580.82.07"),
        ("libcuda.so", "libcuda.so.1"),
        ("libnvidia-ml.so.1", "libnvidia-ml.so.580.82.07"),
        ("libGLX_nvidia.so.0", "libGLX_nvidia.so.580.82.07"),
        ("libGLX_indirect.so.0", "libGLX_nvidia.so.580.82.07"),
        ("libnvidia-opticalflow.so", "libnvidia-opticalflow.so.1"),
        ("gbm/nvidia-drm_gbm.so", "../libnvidia-allocator.so.1"),
    ] {
        assert_eq!(
            target(&files, &format!("/usr/lib64/{path}")),
            Some(expected),
            "{path}"
        );
    }
    assert_eq!(
        target(&files, "/usr/lib64/libnvidia-ml.so"),
        None,
        "the host has none"
    );
}

#[test]
fn links_for_linking_programs_are_made_if_the_host_has_them() {
    let root = Root::new();
    root.driver("/usr/lib64")
        .link("/usr/lib64/libnvidia-ml.so", "libnvidia-ml.so.1");
    assert_eq!(
        target(&root.find(), "/usr/lib64/libnvidia-ml.so"),
        Some("libnvidia-ml.so.1")
    );
}

#[test]
fn the_hosts_link_decides_between_two_libraries_with_one_soname() {
    for linked in ["1.1.2", "1.1.10"] {
        let root = Root::new();
        root.driver("/usr/lib64")
            .library(
                "/usr/lib64/libnvidia-egl-gbm.so.1.1.2",
                "libnvidia-egl-gbm.so.1",
            )
            .library(
                "/usr/lib64/libnvidia-egl-gbm.so.1.1.10",
                "libnvidia-egl-gbm.so.1",
            )
            .link(
                "/usr/lib64/libnvidia-egl-gbm.so.1",
                &format!("libnvidia-egl-gbm.so.{linked}"),
            );
        let expected = format!("libnvidia-egl-gbm.so.{linked}");
        let files = root.find();
        assert_eq!(
            target(&files, "/usr/lib64/libnvidia-egl-gbm.so.1"),
            Some(expected.as_str())
        );
    }
}

#[test]
fn a_soname_cannot_lead_out_of_the_directory_or_replace_a_file() {
    let root = Root::new();
    root.driver("/usr/lib64")
        .library("/usr/lib64/libnvidia-a.so.580.82.07", "../../bin/sh")
        .library("/usr/lib64/libnvidia-b.so.580.82.07", "a::b")
        .library(
            "/usr/lib64/libnvidia-c.so.580.82.07",
            "libcuda.so.580.82.07",
        )
        .library("/usr/lib64/libnvidia-d.so.580.82.07", "..");
    let files = root.find();
    let paths: Vec<_> = files.links.iter().map(|link| link.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "/usr/lib64/libcuda.so",
            "/usr/lib64/libcuda.so.1",
            "/usr/lib64/libnvidia-ml.so.1"
        ]
    );
}
