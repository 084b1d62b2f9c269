//! The driver's files that are not libraries.

use std::fs;
use std::os::unix::fs::FileTypeExt as _;

use nvml_session::RejectReason;

use crate::files::{DriverFile, FileKind};
use crate::problem::Problem;
use crate::tree::{Tree, is_plain};
use crate::version::DriverVersion;

/// Programs, which containers get in a directory of every `PATH`.
const PROGRAMS: [&str; 8] = [
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
    "nvidia-imex",
    "nvidia-imex-ctl",
    "nvidia-xconfig",
];
const PROGRAM_DIR: &str = "/usr/bin";

/// Where the host's configuration files are, in the order of the search.
const CONFIGURATION_DIRS: [&str; 3] = ["/etc", "/usr/local/share", "/usr/share"];

/// Configuration files below one of these directories, and the directory in which their readers in a container look.
const CONFIGURATION: [(&str, &str); 15] = [
    ("/usr/share", "glvnd/egl_vendor.d/10_nvidia.json"),
    (
        "/usr/share",
        "egl/egl_external_platform.d/15_nvidia_gbm.json",
    ),
    (
        "/usr/share",
        "egl/egl_external_platform.d/10_nvidia_wayland.json",
    ),
    (
        "/usr/share",
        "egl/egl_external_platform.d/09_nvidia_wayland2.json",
    ),
    (
        "/usr/share",
        "egl/egl_external_platform.d/20_nvidia_xcb.json",
    ),
    (
        "/usr/share",
        "egl/egl_external_platform.d/20_nvidia_xlib.json",
    ),
    ("/usr/share", "nvidia/nvoptix.bin"),
    ("/usr/share", "X11/xorg.conf.d/10-nvidia.conf"),
    ("/usr/share", "X11/xorg.conf.d/nvidia-drm-outputclass.conf"),
    ("/etc", "OpenCL/vendors/nvidia.icd"),
    ("/etc", "vulkan/icd.d/nvidia_icd.json"),
    // Packages for Red Hat's distributions have the architecture in the name.
    ("/etc", "vulkan/icd.d/nvidia_icd.x86_64.json"),
    ("/etc", "vulkan/icd.d/nvidia_icd.aarch64.json"),
    ("/etc", "vulkan/icd.d/nvidia_layers.json"),
    ("/etc", "vulkan/implicit_layer.d/nvidia_layers.json"),
];

/// Where the kernel loads firmware from, without the directories of one kernel release.
const FIRMWARE_DIRS: [&str; 2] = ["/lib/firmware/updates", "/lib/firmware"];
const FIRMWARE_PREFIXES: [&str; 2] = ["gsp", "ucodes"];
const FIRMWARE_SUFFIX: &str = ".bin";

const SOCKET_DIRS: [&str; 2] = ["/run", "/var/run"];
const SOCKETS: [&str; 2] = ["nvidia-persistenced/socket", "nvidia-fabricmanager/socket"];

/// General directories of the X server; others are in the driver's library directories.
const XORG_DIRS: [&str; 4] = [
    "/usr/lib/xorg",
    "/usr/lib64/xorg",
    "/usr/X11R6/lib",
    "/usr/X11R6/lib64",
];
const XORG_MODULE_DIRS: [&str; 4] = [
    "modules/drivers",
    "modules/extensions",
    "modules/updates/drivers",
    "modules/updates/extensions",
];

/// The files, in any order. Adds what is wrong with them to `problems`.
pub(crate) fn find(
    tree: &Tree<'_>,
    version: &DriverVersion,
    problems: &mut Vec<Problem>,
) -> Vec<DriverFile> {
    let mut files = configuration(tree, problems);
    files.extend(firmware(tree, version, problems));
    files.extend(PROGRAMS.iter().filter_map(|name| program(tree, name)));
    files.extend(SOCKETS.iter().filter_map(|name| socket(tree, name)));
    files
}

/// The modules of the X server. `library_dirs` are the host's directories with libraries of the driver.
pub(crate) fn xorg_modules(
    tree: &Tree<'_>,
    version: &DriverVersion,
    library_dirs: &[&str],
    problems: &mut Vec<Problem>,
) -> Vec<DriverFile> {
    let mut dirs = Vec::new();
    for dir in library_dirs {
        dirs.push(format!("{dir}/nvidia/xorg"));
        dirs.extend(XORG_MODULE_DIRS.iter().map(|it| format!("{dir}/xorg/{it}")));
    }
    for dir in XORG_DIRS {
        dirs.extend(XORG_MODULE_DIRS.iter().map(|it| format!("{dir}/{it}")));
    }
    let names = [
        "nvidia_drv.so".to_owned(),
        format!("libglxserver_nvidia.so.{version}"),
    ];
    let modules = names.iter().filter_map(|name| {
        let paths = dirs.iter().map(|dir| format!("{dir}/{name}"));
        let (path, host_path) = first_file(tree, paths, problems)?;
        plain_file(FileKind::XorgModule, path, host_path, problems)
    });
    modules.collect()
}

fn configuration(tree: &Tree<'_>, problems: &mut Vec<Problem>) -> Vec<DriverFile> {
    let files = CONFIGURATION.iter().filter_map(|(dir, name)| {
        let paths = CONFIGURATION_DIRS.iter().map(|dir| format!("{dir}/{name}"));
        let (_, host_path) = first_file(tree, paths, problems)?;
        Some(DriverFile {
            kind: FileKind::Configuration,
            container_path: format!("{dir}/{name}"),
            host_path,
        })
    });
    files.collect()
}

fn firmware(
    tree: &Tree<'_>,
    version: &DriverVersion,
    problems: &mut Vec<Problem>,
) -> Vec<DriverFile> {
    let mut files = Vec::new();
    for dir in FIRMWARE_DIRS.map(|dir| format!("{dir}/nvidia/{version}")) {
        let Ok(host_dir) = tree.resolve(&dir) else {
            continue;
        };
        let is_firmware = |name: &String| {
            let prefix = FIRMWARE_PREFIXES.iter().any(|it| name.starts_with(it));
            prefix && name.ends_with(FIRMWARE_SUFFIX)
        };
        for name in tree.names(&host_dir).into_iter().filter(is_firmware) {
            let path = format!("{dir}/{name}");
            let file = first_file(tree, [path].into_iter(), problems);
            files.extend(file.and_then(|(path, host_path)| {
                plain_file(FileKind::Firmware, path, host_path, problems)
            }));
        }
    }
    files
}

fn program(tree: &Tree<'_>, name: &str) -> Option<DriverFile> {
    let found = tree.0.find_tool(name).ok()?;
    let inside = found.strip_prefix(tree.0.path()).ok()?.to_str()?;
    Some(DriverFile {
        kind: FileKind::Program,
        container_path: format!("{PROGRAM_DIR}/{name}"),
        host_path: format!("/{inside}"),
    })
}

fn socket(tree: &Tree<'_>, name: &str) -> Option<DriverFile> {
    let paths = SOCKET_DIRS.iter().map(|dir| format!("{dir}/{name}"));
    let mut found = paths.filter_map(|path| Some((tree.resolve(&path).ok()?, path)));
    let is_socket = |host_path: &str| {
        let metadata = fs::symlink_metadata(tree.on_host(host_path));
        metadata.is_ok_and(|metadata| metadata.file_type().is_socket())
    };
    let (host_path, container_path) = found.find(|(host_path, _)| is_socket(host_path))?;
    Some(DriverFile {
        kind: FileKind::Socket,
        container_path,
        host_path,
    })
}

/// The first usable path with the file that its links lead to. A path that exists and is no file is a problem.
fn first_file(
    tree: &Tree<'_>,
    paths: impl Iterator<Item = String>,
    problems: &mut Vec<Problem>,
) -> Option<(String, String)> {
    for path in paths {
        match tree.file(&path) {
            Ok(host_path) => return Some((path, host_path)),
            Err(RejectReason::Missing) => {}
            Err(reason) => problems.push(Problem::unusable(&path, &reason)),
        }
    }
    None
}

fn plain_file(
    kind: FileKind,
    container_path: String,
    host_path: String,
    problems: &mut Vec<Problem>,
) -> Option<DriverFile> {
    if !is_plain(&container_path) {
        problems.push(Problem::OddPath {
            path: container_path,
        });
        return None;
    }
    Some(DriverFile {
        kind,
        container_path,
        host_path,
    })
}
