//! From a driver root and a version to the driver's files.

use std::collections::BTreeSet;

use nvml_session::DriverRoot;

use crate::files::{DriverFiles, FileKind};
use crate::libraries::{self, Library};
use crate::links;
use crate::other_files;
use crate::tree::Tree;
use crate::version::DriverVersion;

// === impl DriverFiles ===

impl DriverFiles {
    /// Finds the files of the driver `version` below `root`.
    ///
    /// The result depends on the directory tree and the version only. It takes a few milliseconds, most of them for
    /// opening each library.
    ///
    /// Directories with libraries are those that [`DriverRoot`] knows, those of the root's `ld.so.cache`, and those
    /// that their links `libcuda.so.1` and `libnvidia-ml.so.1` lead to. Nothing below
    /// [roots within the root](DriverRoot::with_nested) is found: such a root has its own files.
    pub fn find(root: &DriverRoot, version: &DriverVersion) -> Self {
        let tree = Tree(root);
        let found = libraries::find(&tree, version);
        let (libraries, mut problems) = (found.found, found.problems);
        let host_dirs = host_dirs(&libraries);
        let xorg = other_files::xorg_modules(&tree, version, &host_dirs, &mut problems);
        let links = links::links(&tree, &libraries, &xorg);
        let library_dirs = library_dirs(&libraries, version);

        let mut files = other_files::find(&tree, version, &mut problems);
        files.extend(xorg);
        files.extend(libraries.into_iter().map(|library| library.file));
        files.sort();
        let mut paths = BTreeSet::new();
        files.retain(|file| paths.insert(file.container_path.clone()));
        problems.sort();
        problems.dedup();
        Self {
            version: version.clone(),
            files,
            links,
            library_dirs,
            problems,
        }
    }
}

/// The host's directories of the libraries with the driver's version.
fn host_dirs(libraries: &[Library]) -> Vec<&str> {
    let versioned = libraries.iter();
    let versioned = versioned.filter(|library| library.file.kind == FileKind::Library);
    unique(versioned.map(|library| library.host_dir.as_str()))
}

fn library_dirs(libraries: &[Library], version: &DriverVersion) -> Vec<String> {
    let libcuda = format!("libcuda.so.{version}");
    let (first, others): (Vec<_>, Vec<_>) = libraries
        .iter()
        .partition(|library| library.name() == libcuda);
    let dirs = unique(first.into_iter().chain(others).map(Library::dir));
    dirs.into_iter().map(str::to_owned).collect()
}

fn unique<'a>(texts: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut unique = Vec::new();
    for text in texts {
        if !unique.contains(&text) {
            unique.push(text);
        }
    }
    unique
}
