//! Specs in subdirectories of CDI directories: runtimes read the files of a directory,
//! and none of those below it (CDI specification, "CDI JSON Specification").

use imex_cdi::{MAX_SPEC_LEN, QualifiedName, Registry, ResolveError, Spec};

use crate::files::HostFiles;

/// How many files and subdirectories of one CDI directory are looked at.
const MOST_FILES: usize = 256;

/// How many levels: a spec that was misplaced by mistake is rarely deeper.
const MOST_LEVELS: usize = 3;

/// A valid spec in a subdirectory of a CDI directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NestedSpec {
    /// Its path.
    pub path: String,
    /// A device of it that no other file defines; `None` for a copy.
    pub missed: Option<String>,
}

pub(super) fn find(files: &HostFiles, registry: &Registry, dir: &str) -> Vec<NestedSpec> {
    let mut found = Vec::new();
    let mut todo: Vec<(String, usize)> = subdirectories(files, dir, 1).collect();
    let mut left = MOST_FILES;
    while let Some((dir, level)) = todo.pop() {
        for name in files.list(&dir) {
            if left == 0 {
                return found;
            }
            left -= 1;
            if is_spec_name(&name) {
                found.extend(read(files, registry, format!("{dir}/{name}")));
            }
        }
        if level < MOST_LEVELS {
            todo.extend(subdirectories(files, &dir, level + 1));
        }
    }
    found
}

/// Without links, which may lead anywhere.
fn subdirectories<'a>(
    files: &'a HostFiles,
    dir: &'a str,
    level: usize,
) -> impl Iterator<Item = (String, usize)> + use<'a> {
    let paths = files
        .list(dir)
        .into_iter()
        .map(move |name| format!("{dir}/{name}"));
    let is_dir = |path: &String| {
        let found = files.resolve(path).symlink_metadata();
        found.is_ok_and(|found| found.is_dir())
    };
    paths.filter(is_dir).map(move |path| (path, level))
}

/// `None` of what is no valid spec.
fn read(files: &HostFiles, registry: &Registry, path: String) -> Option<NestedSpec> {
    let longest = usize::try_from(MAX_SPEC_LEN).ok()?;
    let text = files.read_up_to(&path, longest).ok()??;
    let spec = Spec::parse(&text).ok()?;
    let devices = spec.devices().iter();
    let mut names =
        devices.map(|device| QualifiedName::new(spec.kind().clone(), device.name.clone()));
    let is_missed = |name: &QualifiedName| {
        let resolved = registry.resolve(name);
        matches!(resolved, Err(ResolveError::Unknown { .. }))
    };
    let missed = names.find(is_missed).map(|name| name.to_string());
    Some(NestedSpec { path, missed })
}

/// Whether runtimes read a file of this name in a CDI directory: they compare exactly.
pub(crate) fn is_spec_name(name: &str) -> bool {
    [".json", ".yaml"].iter().any(|end| name.ends_with(end))
}
