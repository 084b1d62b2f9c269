//! The edits of a spec.
#![expect(
    clippy::unwrap_used,
    reason = "a failed unwrap outside a test function fails the test too"
)]
// Each test program uses a part of the support.
#![allow(dead_code, reason = "each test program uses a part of the support")]

mod support;

use std::os::unix::net::UnixListener;

use imex_cdi::{ContainerEdits, Device, DeviceName, Spec};
use nvidia_driver_files::RuntimePaths;
use support::Root;

const PATHS: RuntimePaths<'_> = RuntimePaths {
    driver_root: "/run/nvidia/driver/",
    hook: "/opt/ours/nvidia-cdi-hook",
};

#[test]
fn mounts_have_the_runtimes_root_and_options_by_kind() {
    let root = Root::new();
    root.driver("/usr/lib64").dir("/run/nvidia-persistenced");
    let _listener = UnixListener::bind(root.at("/run/nvidia-persistenced/socket")).unwrap();
    let edits = root.find().container_edits(&PATHS);
    let mounts: Vec<_> = edits
        .mounts
        .iter()
        .map(|it| {
            (
                it.host_path.as_str(),
                it.container_path.as_str(),
                it.options.join(","),
            )
        })
        .collect();
    let file = "ro,nosuid,nodev,rbind,rprivate".to_owned();
    let expected = [
        (
            "/run/nvidia/driver/usr/lib64/libcuda.so.580.82.07",
            "/usr/lib64/libcuda.so.580.82.07",
            file.clone(),
        ),
        (
            "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.580.82.07",
            "/usr/lib64/libnvidia-ml.so.580.82.07",
            file,
        ),
        (
            "/run/nvidia/driver/run/nvidia-persistenced/socket",
            "/run/nvidia-persistenced/socket",
            "nosuid,nodev,noexec,rbind,rprivate".to_owned(),
        ),
    ];
    assert_eq!(mounts, expected);
}

#[test]
fn one_hook_has_the_links_the_folders_and_the_version() {
    let root = Root::new();
    root.driver("/usr/lib64");
    let edits = root.find().container_edits(&PATHS);
    let [hook] = edits.hooks.as_slice() else {
        unreachable!("{:?}", edits.hooks);
    };
    assert_eq!(hook.hook_name, "createContainer");
    assert_eq!(hook.path, "/opt/ours/nvidia-cdi-hook");
    assert_eq!(
        hook.args.join(" "),
        "nvidia-cdi-hook container --link libcuda.so.1::/usr/lib64/libcuda.so \
         --link libcuda.so.580.82.07::/usr/lib64/libcuda.so.1 \
         --link libnvidia-ml.so.580.82.07::/usr/lib64/libnvidia-ml.so.1 \
         --folder /usr/lib64 --host-driver-version 580.82.07"
    );
    assert_eq!(
        edits.env,
        [
            "NVIDIA_VISIBLE_DEVICES=void",
            "NVIDIA_CTK_LIBCUDA_DIR=/usr/lib64"
        ]
    );
}

#[test]
fn another_hook_links_the_nodes_of_graphics_by_the_gpus_address() {
    let hook = PATHS.by_path_hook("0000:18:00.0", ["card1", "renderD129"]);
    let hook = hook.unwrap();
    assert_eq!(hook.hook_name, "createContainer");
    assert_eq!(hook.path, "/opt/ours/nvidia-cdi-hook");
    assert_eq!(
        hook.args.join(" "),
        "nvidia-cdi-hook create-symlinks \
         --link ../card1::/dev/dri/by-path/pci-0000:18:00.0-card \
         --link ../renderD129::/dev/dri/by-path/pci-0000:18:00.0-render"
    );
    assert_eq!(PATHS.by_path_hook("0000:18:00.0", []), None);
}

#[test]
fn a_root_of_slash_is_not_doubled_and_the_edits_make_a_valid_spec() {
    let root = Root::new();
    root.driver("/usr/lib64");
    let paths = RuntimePaths {
        driver_root: "/",
        ..PATHS
    };
    let edits = root.find().container_edits(&paths);
    let host_path = edits.mounts.first().unwrap().host_path.as_str();
    assert_eq!(host_path, "/usr/lib64/libcuda.so.580.82.07");
    let device = Device {
        name: DeviceName::new("gpu0").unwrap(),
        annotations: std::collections::BTreeMap::new(),
        container_edits: ContainerEdits {
            env: vec!["A=b".to_owned()],
            ..ContainerEdits::default()
        },
    };
    let spec = Spec::new("example.com/gpu".parse().unwrap(), vec![device]).unwrap();
    spec.with_container_edits(edits).unwrap();
}

#[test]
fn a_driver_without_libcuda_has_no_directory_of_libcuda() {
    let edits = Root::new().find().container_edits(&PATHS);
    assert_eq!(edits.env, ["NVIDIA_VISIBLE_DEVICES=void"]);
    assert_eq!(edits.mounts, []);
}
