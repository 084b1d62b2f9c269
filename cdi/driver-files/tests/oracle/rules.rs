//! What explains a difference from NVIDIA's generator: the id of an entry in `divergences.json`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use nvidia_driver_files::{DriverFile, FileKind, Problem};
use nvml_session::elf;

use crate::case::{Case, dir_of, follow, name_of};
use crate::edits::{Difference, Mounted, Side};
use crate::tree_content::BLOB;

/// Directories of one distribution, whose libraries we move.
const HOST_ONLY: [&str; 2] = ["/usr/lib/nvidia/tesla", "/usr/local/glibc/usr/lib"];

/// The directories that NVIDIA's generator searches for libraries; `ld.so.cache` only if these have none.
const SEARCHED: [&str; 10] = [
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/lib64",
    "/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/lib/x86_64-linux-gnu/nvidia/current",
    "/lib/aarch64-linux-gnu/nvidia/current",
];

const PROGRAM_DIRS: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

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

// === impl Case ===

impl Case<'_> {
    /// Why the generator fails on a root.
    pub(crate) fn explain_failure(&self, error: &str) -> Option<&'static str> {
        let required = ["libcuda", "libnvidia-ml"].map(|stem| self.required(stem));
        if error.contains("unexpected version detected") {
            return Some("library-behind-a-link");
        }
        if required.iter().all(Option::is_none) {
            return Some("no-driver-library");
        }
        let mut files = required.into_iter().flatten();
        files.find_map(|file| self.our_library(file))
    }

    /// The id of the rule that explains a difference.
    pub(crate) fn explain(&self, difference: &Difference) -> Option<&'static str> {
        match difference {
            Difference::Mount(path, ours, theirs) => {
                self.mount(path, ours.as_ref(), theirs.as_ref())
            }
            Difference::Link(path, ours, theirs) => self.link(path, ours, theirs),
            Difference::Folder(dir, Side::Ours) => self.our_folder(dir),
            Difference::Folder(dir, Side::Theirs) => self.their_folder(dir),
            Difference::Env(name, ..) if name == "NVIDIA_CTK_LIBCUDA_DIR" => Some("libcuda-dir"),
            Difference::Hook(name, Side::Theirs) if name == "update-application-profile" => {
                Some("application-profile")
            }
            _ => None,
        }
    }

    fn mount(
        &self,
        path: &str,
        ours: Option<&Mounted>,
        theirs: Option<&Mounted>,
    ) -> Option<&'static str> {
        let (dir, name) = path.rsplit_once('/')?;
        match (ours, theirs) {
            (None, Some(_)) if path == "/var/run/nvidia-container-devices/void" => {
                Some("void-mount")
            }
            (Some(ours), Some(theirs)) if ours.1 != theirs.1 => None,
            (Some(ours), Some(theirs)) if self.resolve(&theirs.0).as_ref() == Some(&ours.0) => {
                Some("host-paths-without-links")
            }
            _ if PROGRAMS.contains(&name) && PROGRAM_DIRS.contains(&dir) => self.program(name),
            (None, Some(theirs)) if name == "socket" => {
                let path = self.on_host(&theirs.0);
                path.is_file().then_some("sockets-only")
            }
            (None, Some(_)) if name == "nvidia_drv.so" => self.xorg_module(name),
            (None, Some(theirs)) => self.their_library(path, &theirs.0),
            (Some(_), _) => self.our_file(self.file(path)?),
            (None, None) => None,
        }
    }

    fn program(&self, name: &str) -> Option<&'static str> {
        let ours = self.file(&format!("/usr/bin/{name}"))?;
        let paths = PROGRAM_DIRS.map(|dir| format!("{dir}/{name}"));
        let is_program = |path: &String| {
            let metadata = self.on_host(path).metadata();
            metadata.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
        };
        let preferred = self.resolve(&format!("/opt/bin/{name}"));
        if paths.iter().any(is_program) || preferred.as_ref() == Some(&ours.host_path) {
            return Some("programs-in-usr-bin");
        }
        if paths.iter().any(|path| self.leads_elsewhere(path)) {
            return Some("links-in-the-root");
        }
        let mode = self.on_host(&ours.host_path).metadata().ok()?.permissions();
        (mode.mode() & 0o111 == 0).then_some("program-not-executable")
    }

    /// A file that only we have at this path, or from this path.
    fn our_file(&self, file: &DriverFile) -> Option<&'static str> {
        match file.kind {
            FileKind::Library | FileKind::EglPlatform => self.our_library(file),
            _ if self.is_behind_absolute_link(name_of(&file.container_path)) => {
                Some("links-in-the-root")
            }
            FileKind::XorgModule => self.our_xorg_module(file),
            _ => None,
        }
    }

    fn our_library(&self, file: &DriverFile) -> Option<&'static str> {
        let name = name_of(&file.container_path);
        let (host_dir, host_name) = file.host_path.rsplit_once('/')?;
        let host_dir = host_dir.strip_suffix("/vdpau").unwrap_or(host_dir);
        if self.is_behind_absolute_link(name) {
            Some("links-in-the-root")
        } else if host_name != name {
            Some("library-behind-a-link")
        } else if is_host_only(host_dir) && dir_of(&file.container_path) != dir_of(&file.host_path)
        {
            Some("usual-directory")
        } else if !self.is_searched(host_dir) {
            Some("all-directories")
        } else {
            None
        }
    }

    /// A module that we have from another directory.
    fn xorg_module(&self, name: &str) -> Option<&'static str> {
        let mut modules = self.files.of_kind(FileKind::XorgModule);
        let file = modules.find(|file| name_of(&file.container_path) == name)?;
        self.our_file(file)
    }

    /// A module beside libraries, in a directory that the generator does not search, or searches last.
    fn our_xorg_module(&self, file: &DriverFile) -> Option<&'static str> {
        let (dir, _) = file.host_path.split_once("/xorg/")?;
        Some(if self.is_searched(dir) {
            "xorg-modules-beside-libraries"
        } else {
            "all-directories"
        })
    }

    /// A library that only NVIDIA's generator has at this path.
    fn their_library(&self, path: &str, host_path: &str) -> Option<&'static str> {
        let (dir, name) = host_path.rsplit_once('/')?;
        let dir = dir.strip_suffix("/vdpau").unwrap_or(dir);
        if path == host_path && self.resolve(host_path).is_none() {
            return Some("links-in-the-root");
        }
        if name == BLOB {
            return Some("library-behind-a-link");
        }
        let mut files = self.files.files.iter();
        if let Some(file) = files.find(|file| file.host_path == host_path) {
            if name_of(&file.container_path) != name {
                return Some("library-behind-a-link");
            }
            let is_moved = is_host_only(dir) && file.container_path != host_path;
            return is_moved.then_some("usual-directory");
        }
        let mut ids = self
            .files
            .problems
            .iter()
            .filter_map(|problem| match problem {
                Problem::OddPath { path } if path == host_path => Some("odd-names"),
                Problem::UnusableFile { reason, .. }
                    if reason.starts_with(&format!("leads to {name}, ")) =>
                {
                    Some("version-behind-a-link")
                }
                Problem::UnusableFile { path, .. } if self.resolve(path)? == host_path => {
                    Some("unusable-libraries")
                }
                _ => None,
            });
        let content = fs::read(self.on_host(host_path)).unwrap_or_default();
        let is_32_bit = content.starts_with(b"\x7fELF\x01");
        let usual = self.file(&format!("/usr/lib/x86_64-linux-gnu/{name}"));
        let is_shadowed = is_host_only(dir) && usual.is_some();
        ids.next()
            .or_else(|| is_32_bit.then_some("libraries-of-32-bit"))
            .or_else(|| is_shadowed.then_some("usual-directory"))
    }

    fn link(&self, path: &str, ours: &[String], theirs: &[String]) -> Option<&'static str> {
        match (ours, theirs) {
            ([_], []) => self.our_link(path),
            ([ours], theirs) if theirs.contains(ours) => Some("one-target-for-a-link"),
            ([_], [_]) => self.only_our_file(self.file(&follow(&self.ours.links, path))?),
            ([], [target, ..]) if target.ends_with(".so.580.82.07") && path == "/bin/sh" => {
                Some("sonames-in-the-directory")
            }
            ([], [_, ..]) => {
                let end = follow(&self.theirs.links, path);
                let (stem, _) = end.rsplit_once(".so.")?;
                let is_same = |it: &str| it.rsplit_once(".so.").is_some_and(|it| it.0 == stem);
                let theirs = self.theirs.mounts.iter();
                let mut theirs = theirs.filter(|(path, _)| is_same(path));
                match theirs.next() {
                    Some((path, theirs)) => self.their_library(path, &theirs.0),
                    None => path.contains("/gbm/").then_some("links-with-their-library"),
                }
            }
            _ => None,
        }
    }

    fn our_link(&self, path: &str) -> Option<&'static str> {
        let file = self.file(&follow(&self.ours.links, path))?;
        if let Some(id) = self.only_our_file(file) {
            return Some(id);
        }
        let host_path = self.on_host(&file.host_path);
        let soname = elf::soname(&host_path).ok().flatten();
        if soname.is_some_and(|soname| soname.contains('/')) {
            return Some("sonames-in-the-directory");
        }
        if file.kind == FileKind::EglPlatform {
            return Some("egl-platforms");
        }
        let is_link = host_path.with_file_name(name_of(path)).is_symlink();
        (!is_link).then_some("soname-links")
    }

    /// The reason for a file that the generator does not have at the same path.
    fn only_our_file(&self, file: &DriverFile) -> Option<&'static str> {
        let has = self.theirs.mounts.contains_key(&file.container_path);
        if has { None } else { self.our_file(file) }
    }

    /// The first difference of a library in the folder, or only libraries that their generator has no folder for.
    fn our_folder(&self, dir: &str) -> Option<&'static str> {
        let files = self.files.files.iter();
        let mut files = files.filter(|file| dir_of(&file.container_path) == dir);
        let has_no_folder = files.clone().all(|file| file.kind == FileKind::EglPlatform);
        if has_no_folder {
            return Some("egl-platforms");
        }
        files.find_map(|file| self.our_library(file))
    }

    fn their_folder(&self, dir: &str) -> Option<&'static str> {
        let mounts = self.theirs.mounts.iter();
        let mut mounts = mounts.filter(|(path, _)| dir_of(path) == dir);
        mounts.find_map(|(path, theirs)| self.their_library(path, &theirs.0))
    }

    /// Whether NVIDIA's generator searches this directory, under any name.
    fn is_searched(&self, dir: &str) -> bool {
        let mut dirs = SEARCHED.iter().filter_map(|it| self.resolve(it));
        dirs.any(|it| it == dir)
    }
}

fn is_host_only(dir: &str) -> bool {
    HOST_ONLY.iter().any(|it| dir.starts_with(it))
}
