//! Generated driver roots. A root is a function of its number.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;

use fastrand::Rng;

use crate::support::{Root, VERSION, elf, ld_cache};
use crate::tree_content::{
    BLOB, DIRS, LIBRARIES, ORDINARY_DIRS, ORDINARY_LIBRARIES, OTHER_FILES, PROGRAM_DIRS, PROGRAMS,
    SOCKETS, UNVERSIONED,
};

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
