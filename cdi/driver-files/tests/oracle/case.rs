//! A root with our files and NVIDIA's edits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use imex_cdi::ContainerEdits;
use nvidia_driver_files::{DriverFile, DriverFiles, DriverVersion, FileKind, RuntimePaths};
use nvml_session::DriverRoot;

use crate::edits::{Comparable, Difference};

/// A root with our files and NVIDIA's edits.
pub(crate) struct Case<'a> {
    root: DriverRoot,
    pub(crate) files: DriverFiles,
    pub(crate) ours: Comparable,
    pub(crate) theirs: Comparable,
    /// Names of files behind absolute links, which NVIDIA's generator looks for outside the root.
    absolute_links: &'a [String],
}

// === impl Case ===

impl<'a> Case<'a> {
    pub(crate) fn new(
        root: &Path,
        version: &DriverVersion,
        theirs: Option<&ContainerEdits>,
        absolute_links: &'a [String],
    ) -> Self {
        let text = root.to_str().unwrap();
        let theirs = theirs.map(|theirs| Comparable::new(theirs, text));
        let root = DriverRoot::new(root);
        let files = DriverFiles::find(&root, version);
        let edits = files.container_edits(&RuntimePaths {
            driver_root: "/",
            hook: "/hook",
        });
        Self {
            ours: Comparable::new(&edits, ""),
            theirs: theirs.unwrap_or_default(),
            root,
            files,
            absolute_links,
        }
    }

    pub(crate) fn differences(&self) -> Vec<Difference> {
        self.ours.differences(&self.theirs)
    }

    pub(crate) fn required(&self, stem: &str) -> Option<&DriverFile> {
        let name = format!("{stem}.so.{}", self.files.version);
        let mut files = self.files.of_kind(FileKind::Library);
        files.find(|file| name_of(&file.container_path) == name)
    }

    pub(crate) fn file(&self, container_path: &str) -> Option<&DriverFile> {
        let mut files = self.files.files.iter();
        files.find(|file| file.container_path == container_path)
    }

    /// The path inside the root, without links.
    pub(crate) fn resolve(&self, path: &str) -> Option<String> {
        let inside = self.root.resolve(path).ok()?;
        Some(format!("/{}", inside.to_str()?))
    }

    /// Whether the path leads to one file inside the root, and outside of it to another or to none.
    pub(crate) fn leads_elsewhere(&self, path: &str) -> bool {
        let inside = self.resolve(path).map(|inside| self.on_host(&inside));
        inside.is_some_and(|inside| self.on_host(path).canonicalize().ok() != Some(inside))
    }

    pub(crate) fn on_host(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    pub(crate) fn is_behind_absolute_link(&self, name: &str) -> bool {
        self.absolute_links.iter().any(|it| it == name)
    }
}

/// Follows links between links to a path that is none.
pub(crate) fn follow(links: &BTreeMap<String, Vec<String>>, path: &str) -> String {
    let mut path = path.to_owned();
    for _ in 0..links.len() {
        let Some(target) = links.get(&path).and_then(|targets| targets.last()) else {
            break;
        };
        let dir = dir_of(&path);
        path = match target.strip_prefix("../") {
            Some(target) => format!("{}/{target}", dir_of(dir)),
            None => format!("{dir}/{target}"),
        };
    }
    path
}

pub(crate) fn dir_of(path: &str) -> &str {
    path.rsplit_once('/').unwrap().0
}

pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit_once('/').unwrap().1
}
