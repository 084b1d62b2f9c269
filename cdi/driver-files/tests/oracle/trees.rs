//! Generated driver roots. A root is a function of its number.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;

use fastrand::Rng;

use crate::support::{Root, VERSION, elf};

/// Directories of drivers, and links to them that hosts have.
const DIRS: [&str; 9] = [
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
const ORDINARY_DIRS: usize = 5;

/// The name of a library behind a link of another name.
pub(crate) const BLOB: &str = "blob";

/// Libraries with their SONAMEs; the last ones are odd.
const ORDINARY_LIBRARIES: usize = 13;
const LIBRARIES: [(&str, &str); 16] = [
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

const UNVERSIONED: [(&str, &str); 5] = [
    ("libnvidia-egl-gbm.so.1.1.2", "libnvidia-egl-gbm.so.1"),
    (
        "libnvidia-egl-wayland.so.1.1.18",
        "libnvidia-egl-wayland.so.1",
    ),
    ("libnvidia-egl-xcb.so.1.0.1", "libnvidia-egl-xcb.so.1"),
    ("libnvidia-nvvm70.so.4", "libnvidia-nvvm70.so.4"),
    ("libz.so.1.3.1", "libz.so.1"),
];

const OTHER_FILES: [&str; 15] = [
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

const PROGRAMS: [&str; 4] = [
    "nvidia-smi",
    "nvidia-persistenced",
    "nvidia-imex",
    "nvidia-xconfig",
];
const PROGRAM_DIRS: [&str; 4] = ["/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/bin"];
const SOCKETS: [&str; 2] = ["/run/nvidia-persistenced", "/var/run/nvidia-fabricmanager"];

/// A generated root. The listeners keep the sockets.
pub(crate) struct Tree {
    pub(crate) root: Root,
    /// File names to which an absolute link leads, or that are behind one.
    pub(crate) absolute_links: Vec<String>,
    rng: Rng,
    /// Whether anything is as no installer leaves it.
    is_hostile: bool,
}

// === impl Tree ===

impl Tree {
    /// `outside` is a directory with files outside of every root.
    pub(crate) fn new(number: u64, outside: &Path) -> Self {
        let mut tree = Self {
            root: Root::new(),
            absolute_links: Vec::new(),
            rng: Rng::with_seed(number),
            is_hostile: !number.is_multiple_of(3),
        };
        if tree.one_in(3) {
            tree.root.dir("/usr/lib64").link("/lib64", "usr/lib64");
        }
        let (known, _) = DIRS.split_at(if tree.is_hostile {
            DIRS.len()
        } else {
            ORDINARY_DIRS
        });
        let count = tree.rng.usize(1..3);
        let dirs: Vec<&str> = (0..count)
            .map(|_| *tree.rng.choice(known).unwrap())
            .collect();
        for dir in &dirs {
            tree.directory(dir, outside);
        }
        if tree.one_in(2) {
            tree.cache(&dirs);
        }
        tree.other_files();
        tree
    }

    fn hostile_one_in(&mut self, n: u32) -> bool {
        self.one_in(n) && self.is_hostile
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.rng.u32(0..n) == 0
    }

    /// The same path may be made twice: the first one stays.
    fn is_free(&self, path: &str) -> bool {
        !self.root.at(path).exists() && !self.root.at(path).is_symlink()
    }

    fn directory(&mut self, dir: &str, outside: &Path) {
        let count = if self.is_hostile {
            LIBRARIES.len()
        } else {
            ORDINARY_LIBRARIES
        };
        for (stem, soname) in LIBRARIES.into_iter().take(count) {
            let is_needed = stem == "libcuda" || stem == "libnvidia-ml";
            if (is_needed && !self.hostile_one_in(12)) || self.one_in(2) {
                self.library(dir, &format!("{stem}.so.{VERSION}"), soname, outside);
            }
            if self.hostile_one_in(12) {
                self.library(dir, &format!("{stem}.so.570.1.2"), soname, outside);
            }
        }
        for (name, soname) in UNVERSIONED {
            if self.one_in(3) {
                self.library(dir, name, soname, outside);
            }
        }
        if self.one_in(2) {
            let name = format!("libvdpau_nvidia.so.{VERSION}");
            self.library(
                &format!("{dir}/vdpau"),
                &name,
                "libvdpau_nvidia.so.1",
                outside,
            );
        }
        if self.hostile_one_in(8) {
            let odd = self
                .rng
                .choice(["lib a", "lib::a", "-liba", "lib\u{e9}"])
                .unwrap();
            self.library(dir, &format!("{odd}.so.{VERSION}"), "liba.so.1", outside);
        }
        if self.one_in(4) {
            self.file(&format!("{dir}/xorg/modules/drivers/nvidia_drv.so"));
        }
    }

    fn library(&mut self, dir: &str, name: &str, soname: &str, outside: &Path) {
        let path = format!("{dir}/{name}");
        if !self.is_free(&path) {
            return;
        }
        let soname_or_none = Some(soname).filter(|it| !it.is_empty());
        let bytes = elf::library(elf::X86_64, soname_or_none);
        if self.is_hostile {
            self.hostile_library(dir, name, &bytes, outside);
        } else {
            self.root.put(&path, &bytes);
        }
        let (_, version) = name.rsplit_once(".so.").unwrap();
        let dev_link = name.strip_suffix(&format!(".{version}")).unwrap();
        self.library_link(dir, soname, name, 2);
        self.library_link(dir, dev_link, soname, 4);
    }

    /// A link as ldconfig makes it, in hostile roots one in `n`.
    fn library_link(&mut self, dir: &str, link: &str, target: &str, n: u32) {
        let path = format!("{dir}/{link}");
        let is_name = !link.is_empty() && !link.contains('/') && !target.is_empty();
        if is_name && (!self.is_hostile || self.one_in(n)) && self.is_free(&path) {
            self.root.link(&path, target);
        }
    }

    fn hostile_library(&mut self, dir: &str, name: &str, bytes: &[u8], outside: &Path) {
        let path = format!("{dir}/{name}");
        let root = &self.root;
        match self.rng.u32(0..60) {
            0 => root.put(&path, &bytes[..150]),
            1 => root.put(&path, b"GROUP ( libc.so.6 )"),
            2 => root.put(&path, &elf::narrow_library()),
            3 => root.link(&path, "/nowhere/at/all"),
            4 => root.link(&path, name),
            5 => root.dir(&path),
            6 => {
                self.absolute_links.push(name.to_owned());
                root.put(&format!("/srv/{name}"), bytes);
                root.link(&path, &format!("/srv/{name}"))
            }
            7 => {
                let target = outside.join("lib.so");
                self.absolute_links.push(name.to_owned());
                root.link(&path, target.to_str().unwrap())
            }
            8 => {
                root.put(&format!("{dir}/store/{BLOB}"), bytes);
                root.link(&path, &format!("store/{BLOB}"))
            }
            9 => {
                root.put(&format!("{dir}/elsewhere/{name}"), bytes);
                root.link(&path, &format!("elsewhere/{name}"))
            }
            _ => root.put(&path, bytes),
        };
    }

    fn absolute_link(&mut self, path: &str, name: &str, bytes: &[u8]) {
        let target = format!("/srv/{name}");
        self.root.put(&target, bytes).link(path, &target);
        self.absolute_links.push(name.to_owned());
    }

    fn file(&mut self, path: &str) {
        let name = path.rsplit('/').next().unwrap();
        let kind = if self.is_hostile {
            self.rng.u32(0..8)
        } else {
            8
        };
        match kind {
            _ if !self.is_free(path) => {}
            0 => self.absolute_link(path, name, b"x"),
            1 => {
                self.root.put(&format!("{path}.real"), b"x");
                self.root.link(path, &format!("{name}.real"));
            }
            _ => {
                self.root.put(path, b"x");
            }
        }
    }

    fn other_files(&mut self) {
        for path in OTHER_FILES {
            if self.one_in(2) {
                self.file(path);
            }
        }
        for program in PROGRAMS {
            let dirs = if self.is_hostile {
                PROGRAM_DIRS.len()
            } else {
                1
            };
            for dir in PROGRAM_DIRS.into_iter().take(dirs) {
                if self.one_in(4) {
                    self.file(&format!("{dir}/{program}"));
                    self.executable(&format!("{dir}/{program}"));
                }
            }
        }
        for dir in SOCKETS {
            let path = format!("{dir}/socket");
            match self.rng.u32(0..4) {
                0 => {
                    self.root.dir(dir);
                    // The socket stays when its listener ends.
                    drop(UnixListener::bind(self.root.at(&path)).unwrap());
                }
                1 if self.is_hostile => self.file(&path),
                _ => {}
            }
        }
        self.root.dir("/tmp/nvidia-mps");
    }

    fn executable(&mut self, path: &str) {
        let mode = if self.hostile_one_in(10) {
            0o644
        } else {
            0o755
        };
        let path = self.root.at(path);
        if !path.is_symlink() {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
    }

    fn cache(&mut self, dirs: &[&str]) {
        let paths: Vec<String> = dirs.iter().flat_map(|dir| self.cached(dir)).collect();
        self.root.put("/etc/ld.so.cache", &ld_cache(&paths));
    }

    /// The names of libraries that the loader would find: those of links, too.
    fn cached(&self, dir: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.at(dir)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut paths: Vec<String> = names
            .filter(|name| name.contains(".so"))
            .map(|name| format!("{dir}/{name}"))
            .collect();
        paths.sort();
        paths
    }
}

/// A cache of the loader in glibc's new format.
fn ld_cache(paths: &[String]) -> Vec<u8> {
    let mut header = b"glibc-ld.so.cache1.1".to_vec();
    header.extend(u32::try_from(paths.len()).unwrap().to_le_bytes());
    header.resize(48, 0);
    let (mut entries, mut texts) = (Vec::new(), Vec::new());
    for path in paths {
        let at = 48 + 24 * paths.len() + texts.len();
        let name_at = at + path.rfind('/').unwrap() + 1;
        for number in [0x303, name_at, at, 0, 0, 0] {
            entries.extend(u32::try_from(number).unwrap().to_le_bytes());
        }
        texts.extend(path.bytes().chain([0]));
    }
    [header, entries, texts].concat()
}
