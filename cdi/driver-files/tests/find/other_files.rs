use std::os::unix::net::UnixListener;

use nvidia_driver_files::FileKind;

use crate::support::{Root, ld_cache};
use crate::{container_paths, host_path};

#[test]
fn programs_are_in_one_directory_of_containers() {
    let root = Root::new();
    root.put("/opt/bin/nvidia-smi", b"")
        .put("/usr/lib/nvidia/current/nvidia-debugdump", b"")
        .link(
            "/usr/bin/nvidia-debugdump",
            "/etc/alternatives/nvidia--nvidia-debugdump",
        )
        .link(
            "/etc/alternatives/nvidia--nvidia-debugdump",
            "/usr/lib/nvidia/current/nvidia-debugdump",
        )
        .put("/usr/sbin/nvidia-modprobe", b"");
    let files = root.find();
    assert_eq!(
        container_paths(&files),
        ["/usr/bin/nvidia-debugdump", "/usr/bin/nvidia-smi"]
    );
    assert_eq!(
        host_path(&files, "/usr/bin/nvidia-debugdump"),
        Some("/usr/lib/nvidia/current/nvidia-debugdump")
    );
}

#[test]
fn configuration_goes_where_its_readers_in_containers_look() {
    let root = Root::new();
    root.put("/usr/share/vulkan/icd.d/nvidia_icd.json", b"")
        .put("/usr/local/share/nvidia/nvoptix.bin", b"")
        .put("/usr/share/nvidia/nvoptix.bin", b"")
        .put("/etc/OpenCL/vendors/nvidia.icd", b"");
    let files = root.find();
    assert_eq!(
        container_paths(&files),
        [
            "/etc/OpenCL/vendors/nvidia.icd",
            "/etc/vulkan/icd.d/nvidia_icd.json",
            "/usr/share/nvidia/nvoptix.bin",
        ]
    );
    assert_eq!(
        host_path(&files, "/usr/share/nvidia/nvoptix.bin"),
        Some("/usr/local/share/nvidia/nvoptix.bin")
    );
}

#[test]
fn only_firmware_of_the_version_is_found() {
    let root = Root::new();
    root.put("/usr/lib/firmware/nvidia/580.82.07/gsp_ga10x.bin", b"")
        .put("/usr/lib/firmware/nvidia/580.82.07/ucodes.bin", b"")
        .put("/usr/lib/firmware/nvidia/580.82.07/other.bin", b"")
        .put("/usr/lib/firmware/nvidia/570.1.2/gsp_ga10x.bin", b"")
        .link("/lib", "usr/lib");
    let files = root.find();
    assert_eq!(
        container_paths(&files),
        [
            "/lib/firmware/nvidia/580.82.07/gsp_ga10x.bin",
            "/lib/firmware/nvidia/580.82.07/ucodes.bin"
        ]
    );
    assert_eq!(
        files.files[0].host_path,
        "/usr/lib/firmware/nvidia/580.82.07/gsp_ga10x.bin"
    );
}

#[test]
fn only_a_socket_is_found_at_the_path_of_a_socket() {
    let root = Root::new();
    root.put("/var/run/nvidia-fabricmanager/socket", b"")
        .dir("/run/nvidia-persistenced");
    let _listener = UnixListener::bind(root.at("/run/nvidia-persistenced/socket")).unwrap();
    let files = root.find();
    let sockets: Vec<_> = files.of_kind(FileKind::Socket).collect();
    assert_eq!(sockets.len(), 1);
    assert_eq!(sockets[0].container_path, "/run/nvidia-persistenced/socket");
}

#[test]
fn modules_of_the_x_server_are_found_beside_the_libraries_first() {
    let root = Root::new();
    root.driver("/usr/lib64")
        .put("/usr/lib64/xorg/modules/drivers/nvidia_drv.so", b"")
        .put("/usr/lib/xorg/modules/drivers/nvidia_drv.so", b"")
        .put(
            "/usr/lib/xorg/modules/extensions/libglxserver_nvidia.so.580.82.07",
            b"",
        );
    let files = root.find();
    let modules = files.of_kind(FileKind::XorgModule);
    let modules: Vec<_> = modules.map(|file| file.container_path.as_str()).collect();
    assert_eq!(
        modules,
        [
            "/usr/lib/xorg/modules/extensions/libglxserver_nvidia.so.580.82.07",
            "/usr/lib64/xorg/modules/drivers/nvidia_drv.so",
        ]
    );
    let link = files
        .links
        .iter()
        .find(|link| link.path.ends_with("libglxserver_nvidia.so"));
    assert_eq!(link.unwrap().target, "libglxserver_nvidia.so.580.82.07");
}

#[test]
fn a_module_in_a_directory_of_the_loaders_cache_is_given_once() {
    let root = Root::new();
    let module = "/usr/lib/xorg/modules/extensions/libglxserver_nvidia.so.580.82.07";
    root.driver("/usr/lib64")
        .library(module, "libglxserver_nvidia.so")
        .put("/etc/ld.so.cache", &ld_cache(&[module.to_owned()]));
    let files = root.find();
    let paths = container_paths(&files);
    assert_eq!(paths.iter().filter(|it| **it == module).count(), 1);
    assert_eq!(paths.len(), 3);
}
