//! What generated driver roots consist of.

/// Directories of drivers, and links to them that hosts have.
pub(crate) const DIRS: [&str; 9] = [
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib",
    "/opt/nvidia/lib",
    "/usr/lib/nvidia/tesla",
    "/usr/local/glibc/usr/lib",
];

/// The first of [`DIRS`] that NVIDIA's generator searches.
pub(crate) const ORDINARY_DIRS: usize = 5;

/// The name of a library behind a link of another name.
pub(crate) const BLOB: &str = "blob";

/// Libraries with their SONAMEs; the last ones are odd.
pub(crate) const ORDINARY_LIBRARIES: usize = 13;
pub(crate) const LIBRARIES: [(&str, &str); 16] = [
    ("libcuda", "libcuda.so.1"),
    ("libnvidia-ml", "libnvidia-ml.so.1"),
    ("libcudadebugger", "libcudadebugger.so.1"),
    ("libnvidia-ptxjitcompiler", "libnvidia-ptxjitcompiler.so.1"),
    ("libnvidia-nvvm", "libnvidia-nvvm.so.4"),
    ("libnvidia-opticalflow", "libnvidia-opticalflow.so.1"),
    ("libnvidia-allocator", "libnvidia-allocator.so.1"),
    (
        "libnvidia-vulkan-producer",
        "libnvidia-vulkan-producer.so.580.82.07",
    ),
    ("libGLX_nvidia", "libGLX_nvidia.so.0"),
    ("libEGL_nvidia", "libEGL_nvidia.so.0"),
    ("libnvidia-tls", "libnvidia-tls.so.580.82.07"),
    ("libnvidia-glcore", ""),
    ("libnvcuvid", "libnvcuvid.so.1"),
    ("libnvidia-a", "../../../bin/sh"),
    ("libnvidia-b", "libnvidia-shared.so.1"),
    ("libnvidia-c", "libnvidia-shared.so.1"),
];

pub(crate) const UNVERSIONED: [(&str, &str); 5] = [
    ("libnvidia-egl-gbm.so.1.1.2", "libnvidia-egl-gbm.so.1"),
    (
        "libnvidia-egl-wayland.so.1.1.18",
        "libnvidia-egl-wayland.so.1",
    ),
    ("libnvidia-egl-xcb.so.1.0.1", "libnvidia-egl-xcb.so.1"),
    ("libnvidia-nvvm70.so.4", "libnvidia-nvvm70.so.4"),
    ("libz.so.1.3.1", "libz.so.1"),
];

pub(crate) const OTHER_FILES: [&str; 15] = [
    "/usr/share/glvnd/egl_vendor.d/10_nvidia.json",
    "/usr/share/egl/egl_external_platform.d/15_nvidia_gbm.json",
    "/usr/local/share/egl/egl_external_platform.d/20_nvidia_xcb.json",
    "/usr/share/nvidia/nvoptix.bin",
    "/usr/local/share/nvidia/nvoptix.bin",
    "/etc/X11/xorg.conf.d/10-nvidia.conf",
    "/etc/OpenCL/vendors/nvidia.icd",
    "/usr/share/vulkan/icd.d/nvidia_icd.json",
    "/etc/vulkan/implicit_layer.d/nvidia_layers.json",
    "/lib/firmware/nvidia/580.82.07/gsp_ga10x.bin",
    "/lib/firmware/updates/nvidia/580.82.07/ucodes_x.bin",
    "/lib/firmware/nvidia/570.1.2/gsp_ga10x.bin",
    "/usr/lib/xorg/modules/drivers/nvidia_drv.so",
    "/usr/lib64/xorg/modules/extensions/libglxserver_nvidia.so.580.82.07",
    "/usr/X11R6/lib/modules/drivers/nvidia_drv.so",
];

pub(crate) const PROGRAMS: [&str; 4] = [
    "nvidia-smi",
    "nvidia-persistenced",
    "nvidia-imex",
    "nvidia-xconfig",
];
pub(crate) const PROGRAM_DIRS: [&str; 4] = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/bin"];
pub(crate) const SOCKETS: [&str; 2] = ["/run/nvidia-persistenced", "/var/run/nvidia-fabricmanager"];
