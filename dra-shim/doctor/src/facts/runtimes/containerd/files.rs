//! The files of a configuration, in the order in which containerd merges them.
//!
//! `LoadConfig` and `resolveImports` of `services/server/config/config.go` (1.7),
//! `cmd/containerd/server/config/config.go` (2.x): each file is followed by those
//! that it imports, in the order of its list; what these import comes after all of
//! them. A path is read once. A path without `*` is no pattern, and has to exist.

use std::collections::{BTreeSet, VecDeque};

use toml::Table;

use super::glob::{GlobError, glob};
use super::release::Release;
use crate::facts::runtimes::toml_file;
use crate::files::HostFiles;

/// A file of a configuration, as it is written.
#[derive(Debug)]
pub(super) struct ConfigFile {
    pub(super) path: String,
    pub(super) table: Table,
}

/// Why there is nothing to decide by, for a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ConfigError {
    /// A file cannot be read here.
    Unreadable(String),
    /// containerd does not start with it.
    Refused(String),
}

/// The file and what it imports, and what that imports; none if there is no such
/// file.
pub(super) fn read_all(
    files: &HostFiles,
    config: &str,
    release: Option<Release>,
) -> Result<Vec<ConfigFile>, ConfigError> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut pending = VecDeque::from([config.to_owned()]);
    while let Some(path) = pending.pop_front() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let read = toml_file::read(files, &path).map_err(ConfigError::Unreadable)?;
        let Some(table) = read else {
            if path == config {
                return Ok(vec![]);
            }
            let error = format!("{path} is imported and does not exist");
            return Err(ConfigError::Refused(error));
        };
        for import in imports(&path, &table)? {
            pending.extend(resolve(files, &path, &import, release)?);
        }
        found.push(ConfigFile { path, table });
    }
    Ok(found)
}

/// What a file imports, as it is written.
pub(super) fn imports(path: &str, table: &Table) -> Result<Vec<String>, ConfigError> {
    let found = toml_file::string_list(table, "imports");
    found
        .map(Option::unwrap_or_default)
        .map_err(|error| ConfigError::Refused(format!("{path}: {error}")))
}

fn resolve(
    files: &HostFiles,
    parent: &str,
    import: &str,
    release: Option<Release>,
) -> Result<Vec<String>, ConfigError> {
    let dir = parent.rsplit_once('/').map_or("", |(dir, _)| dir);
    let is_pattern = import.contains('*');
    let path = match import.strip_prefix('/') {
        Some(_) => clean(import),
        None if is_pattern && release.is_some_and(Release::globs_from_working_directory) => {
            clean(&format!("/{import}"))
        }
        None => clean(&format!("{dir}/{import}")),
    };
    if !is_pattern {
        return Ok(vec![path]);
    }
    glob(files, &path).map_err(|error| match error {
        GlobError::Pattern => {
            ConfigError::Refused(format!("{parent} imports {import}, which is no pattern"))
        }
        GlobError::Directory(dir) => ConfigError::Unreadable(format!(
            "cannot list {dir}, from which {parent} imports {import}"
        )),
    })
}

/// Without what leads nowhere, by its names alone.
fn clean(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    format!("/{}", names.join("/"))
}
