//! The driver's libraries in a root.

use std::collections::{BTreeMap, BTreeSet};

use nvml_session::{RejectReason, elf};

use crate::directories::library_dirs;
use crate::files::{DriverFile, FileKind};
use crate::image_dirs::image_dir;
use crate::problem::Problem;
use crate::tree::{Tree, is_plain, is_plain_name, split};
use crate::version::DriverVersion;

/// A library that containers get.
pub(crate) struct Library {
    pub(crate) file: DriverFile,
    /// The host's directory in which to look for links to it, inside the root.
    pub(crate) host_dir: String,
    pub(crate) soname: Option<String>,
}

/// The libraries of a root, in the order of the directories, and what is wrong with them.
pub(crate) struct Libraries {
    pub(crate) found: Vec<Library>,
    pub(crate) problems: Vec<Problem>,
}

/// A directory below a library directory for drivers of VDPAU, which programs load by name from there.
const VDPAU: &str = "vdpau";

/// Libraries with versions of their own, without the end of their names.
const EGL_PLATFORMS: [&str; 5] = [
    "libnvidia-egl-gbm",
    "libnvidia-egl-wayland",
    "libnvidia-egl-wayland2",
    "libnvidia-egl-xcb",
    "libnvidia-egl-xlib",
];

/// The compiler library for old GPUs. It has the version of NVVM, not of the driver.
const LEGACY_NVVM: &str = "libnvidia-nvvm70";

/// CUDA and NVML: without them the driver is of no use in a container.
const REQUIRED: [&str; 2] = ["libcuda", "libnvidia-ml"];

/// Finds the libraries of the driver `version`.
// req: GPU-7
pub(crate) fn find(tree: &Tree<'_>, version: &DriverVersion) -> Libraries {
    let mut scan = Scan::new(tree, version);
    for dir in library_dirs(tree) {
        scan.directory(&dir);
        if let Ok(vdpau) = tree.resolve(&format!("{dir}/{VDPAU}")) {
            scan.directory(&vdpau);
        }
    }
    scan.finish()
}

/// Splits the name of a library into the part before `.so.` and the version. A name may have `.so.` several times:
/// the last one counts.
pub(crate) fn split_version(name: &str) -> Option<(&str, &str)> {
    name.rsplit_once(".so.")
}

struct Scan<'a> {
    tree: &'a Tree<'a>,
    version: &'a DriverVersion,
    libraries: Libraries,
    container_paths: BTreeSet<String>,
    others: BTreeMap<(String, DriverVersion), BTreeSet<String>>,
}

// === impl Scan ===

impl<'a> Scan<'a> {
    fn new(tree: &'a Tree<'a>, version: &'a DriverVersion) -> Self {
        Self {
            tree,
            version,
            libraries: Libraries {
                found: Vec::new(),
                problems: Vec::new(),
            },
            container_paths: BTreeSet::new(),
            others: BTreeMap::new(),
        }
    }

    fn directory(&mut self, dir: &str) {
        for name in self.tree.names(dir) {
            let Some((stem, version)) = split_version(&name) else {
                continue;
            };
            if version == self.version.as_str() || stem == LEGACY_NVVM {
                self.library(dir, &name, FileKind::Library);
            } else if EGL_PLATFORMS.contains(&stem) {
                if version.contains('.') {
                    self.library(dir, &name, FileKind::EglPlatform);
                }
            } else if is_of_driver(stem)
                && let Ok(version) = version.parse()
            {
                let names = self.others.entry((dir.to_owned(), version));
                names.or_default().insert(name);
            }
        }
    }

    fn library(&mut self, dir: &str, name: &str, kind: FileKind) {
        let path = format!("{dir}/{name}");
        if !is_plain_name(name) {
            self.libraries.problems.push(Problem::OddPath { path });
            return;
        }
        match self.usable(&path) {
            Ok((host_path, machine)) => self.accept(dir, name, kind, host_path, machine),
            // 32-bit libraries beside the others, in /usr/lib of Red Hat's distributions.
            Err(RejectReason::WrongArchitecture { .. }) => {}
            Err(reason) => {
                let problem = Problem::unusable(&path, &reason);
                self.libraries.problems.push(problem);
            }
        }
    }

    fn usable(&self, path: &str) -> Result<(String, u64), RejectReason> {
        let host_path = self.tree.file(path)?;
        let machine = elf::check_complete(&self.tree.on_host(&host_path))?;
        Ok((host_path, machine))
    }

    /// A link to a library of the same name elsewhere stands for that library. A link to one of another name gives it
    /// the name by which programs know it.
    fn accept(&mut self, dir: &str, name: &str, kind: FileKind, host_path: String, machine: u64) {
        let (target_dir, target) = split(&host_path);
        if let Some(reason) = self.other_version(target) {
            let path = format!("{dir}/{name}");
            let problem = Problem::UnusableFile { path, reason };
            self.libraries.problems.push(problem);
            return;
        }
        let host_dir = if target == name { target_dir } else { dir };
        let container_path = format!("{}/{name}", image_dir(host_dir, machine));
        if !is_plain(&container_path) {
            let problem = Problem::OddPath { path: host_path };
            self.libraries.problems.push(problem);
        } else if self.container_paths.insert(container_path.clone()) {
            let soname = elf::soname(&self.tree.on_host(&host_path)).ok().flatten();
            self.libraries.found.push(Library {
                host_dir: host_dir.to_owned(),
                soname: soname.filter(|soname| is_plain_name(soname)),
                file: DriverFile {
                    kind,
                    container_path,
                    host_path,
                },
            });
        }
    }

    /// The reason to refuse a link's target with the name of another version's file.
    fn other_version(&self, target: &str) -> Option<String> {
        let (_, version) = split_version(target)?;
        let version: DriverVersion = version.parse().ok()?;
        let is_other = version != *self.version;
        is_other.then(|| format!("leads to {target}, a file of another driver version"))
    }

    fn finish(mut self) -> Libraries {
        let others = self.others.into_iter();
        let others = others.map(|((dir, version), names)| Problem::OtherVersion {
            dir,
            version,
            names: names.into_iter().collect(),
        });
        self.libraries.problems.extend(others);
        for stem in REQUIRED {
            let name = format!("{stem}.so.{}", self.version);
            let mut found = self.libraries.found.iter();
            if !found.any(|library| library.name() == name) {
                let problem = Problem::MissingLibrary { name };
                self.libraries.problems.push(problem);
            }
        }
        self.libraries
    }
}

fn is_of_driver(stem: &str) -> bool {
    stem.contains("nvidia") || stem.starts_with("libcuda") || stem.starts_with("libnv")
}

// === impl Library ===

impl Library {
    pub(crate) fn name(&self) -> &str {
        split(&self.file.container_path).1
    }

    pub(crate) fn dir(&self) -> &str {
        split(&self.file.container_path).0
    }
}
