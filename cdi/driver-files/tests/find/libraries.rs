use nvidia_driver_files::FileKind;

use crate::support::elf;
use crate::support::{Root, VERSION, ld_cache};
use crate::{container_paths, host_path};

#[test]
fn libraries_of_the_version_are_found_in_every_known_directory_and_keep_their_paths() {
    let root = Root::new();
    root.driver("/usr/lib64")
        .library(
            "/usr/lib/x86_64-linux-gnu/libnvidia-tls.so.580.82.07",
            "libnvidia-tls.so.580.82.07",
        )
        .library("/usr/lib64/libz.so.1.3.1", "libz.so.1");
    let files = root.find();
    assert_eq!(
        container_paths(&files),
        [
            "/usr/lib/x86_64-linux-gnu/libnvidia-tls.so.580.82.07",
            "/usr/lib64/libcuda.so.580.82.07",
            "/usr/lib64/libnvidia-ml.so.580.82.07",
        ]
    );
    assert_eq!(files.libcuda_dir(), Some("/usr/lib64"));
    assert_eq!(
        files.library_dirs,
        ["/usr/lib64", "/usr/lib/x86_64-linux-gnu"]
    );
    assert_eq!(files.problems, []);
}

#[test]
fn two_paths_to_one_directory_are_one() {
    let root = Root::new();
    root.driver("/usr/lib64").link("/lib64", "usr/lib64");
    assert_eq!(root.find().files.len(), 2);
}

#[test]
fn the_cache_of_the_loader_and_links_lead_to_further_directories() {
    let root = Root::new();
    let cache =
        ld_cache(&["/usr/lib64/libz.so.1", "/opt/nvidia/lib/libcuda.so.1"].map(str::to_owned));
    root.driver("/opt/nvidia/lib")
        .put("/etc/ld.so.cache", &cache);
    assert_eq!(root.find().libcuda_dir(), Some("/opt/nvidia/lib"));

    let root = Root::new();
    root.driver("/srv/driver").link(
        "/usr/lib64/libcuda.so.1",
        &format!("/srv/driver/libcuda.so.{VERSION}"),
    );
    let files = root.find();
    assert_eq!(files.libcuda_dir(), Some("/srv/driver"));
    assert_eq!(files.files.len(), 2);
}

#[test]
fn vdpau_drivers_are_in_a_directory_of_their_own() {
    let root = Root::new();
    root.driver("/usr/lib64").library(
        "/usr/lib64/vdpau/libvdpau_nvidia.so.580.82.07",
        "libvdpau_nvidia.so.1",
    );
    let files = root.find();
    assert!(container_paths(&files).contains(&"/usr/lib64/vdpau/libvdpau_nvidia.so.580.82.07"));
    assert_eq!(files.library_dirs, ["/usr/lib64", "/usr/lib64/vdpau"]);
}

#[test]
fn egl_platforms_have_versions_of_their_own() {
    let root = Root::new();
    root.driver("/usr/lib64")
        .library(
            "/usr/lib64/libnvidia-egl-gbm.so.1.1.2",
            "libnvidia-egl-gbm.so.1",
        )
        .link(
            "/usr/lib64/libnvidia-egl-gbm.so.1",
            "libnvidia-egl-gbm.so.1.1.2",
        );
    let files = root.find();
    let platforms: Vec<_> = files.of_kind(FileKind::EglPlatform).collect();
    assert_eq!(platforms.len(), 1);
    assert_eq!(
        platforms[0].container_path,
        "/usr/lib64/libnvidia-egl-gbm.so.1.1.2"
    );
}

#[test]
fn directories_that_no_image_searches_become_the_usual_one() {
    for dir in ["/usr/lib/nvidia/tesla", "/usr/local/glibc/usr/lib"] {
        let root = Root::new();
        root.driver(dir);
        let files = root.find();
        assert_eq!(files.library_dirs, ["/usr/lib/x86_64-linux-gnu"], "{dir}");
        assert_eq!(
            host_path(&files, "/usr/lib/x86_64-linux-gnu/libcuda.so.580.82.07"),
            Some(format!("{dir}/libcuda.so.580.82.07").as_str())
        );
    }
}

#[test]
fn nixos_links_into_its_store_and_containers_have_the_usual_directory() {
    let root = Root::new();
    let store = "/nix/store/abc-nvidia-x11-580.82.07/lib";
    root.driver(store)
        .link("/run/opengl-driver", "/nix/store/def-graphics");
    for stem in ["libcuda", "libnvidia-ml"] {
        let name = format!("{stem}.so.{VERSION}");
        root.link(
            &format!("/nix/store/def-graphics/lib/{name}"),
            &format!("{store}/{name}"),
        );
    }
    let files = root.find();
    let path = "/usr/lib/x86_64-linux-gnu/libcuda.so.580.82.07";
    assert_eq!(
        host_path(&files, path),
        Some(format!("{store}/libcuda.so.580.82.07").as_str())
    );
    assert_eq!(files.files.len(), 2);
    assert_eq!(files.library_dirs, ["/usr/lib/x86_64-linux-gnu"]);
}

#[test]
fn a_library_behind_a_link_of_another_name_keeps_the_name_of_the_link() {
    let root = Root::new();
    root.driver("/usr/lib64")
        .library("/opt/blob", "libnvidia-x.so.1")
        .link("/usr/lib64/libnvidia-x.so.580.82.07", "../../opt/blob");
    let files = root.find();
    assert_eq!(
        host_path(&files, "/usr/lib64/libnvidia-x.so.580.82.07"),
        Some("/opt/blob")
    );
}

#[test]
fn libraries_of_32_bit_are_left_out_silently() {
    let root = Root::new();
    root.driver("/usr/lib64")
        .put("/usr/lib/libcuda.so.580.82.07", &elf::narrow_library());
    let files = root.find();
    assert_eq!(files.files.len(), 2);
    assert_eq!(files.problems, []);
}

#[test]
fn the_same_library_of_two_directories_that_become_one_is_given_once() {
    let root = Root::new();
    root.driver("/usr/lib/x86_64-linux-gnu")
        .driver("/usr/lib/nvidia/tesla");
    let files = root.find();
    let path = "/usr/lib/x86_64-linux-gnu/libcuda.so.580.82.07";
    assert_eq!(host_path(&files, path), Some(path));
    assert_eq!(files.files.len(), 2);
}

#[test]
fn the_directory_of_libcuda_is_the_first_of_the_loaders() {
    let root = Root::new();
    root.driver("/usr/lib/x86_64-linux-gnu").library(
        "/usr/lib64/libnvidia-tls.so.580.82.07",
        "libnvidia-tls.so.580.82.07",
    );
    let files = root.find();
    assert_eq!(
        files.library_dirs,
        ["/usr/lib/x86_64-linux-gnu", "/usr/lib64"]
    );
}
