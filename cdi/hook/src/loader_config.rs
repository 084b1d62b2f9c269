//! The folders in which glibc's `ldconfig` looks for libraries.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::error::HookError;
use crate::musl;
use crate::root::Root;

pub(crate) const MAIN: &str = "/etc/ld.so.conf";
const FOLDER: &str = "/etc/ld.so.conf.d";
/// NVIDIA's name is `00-nvcr-*.conf`: ahead of other folders, behind `00-compat-*`.
const OWN: &str = "/etc/ld.so.conf.d/00-nvcr-nvidia-cdi-hook.conf";
/// NVIDIA's name is `zz-nvcr-*.conf`: behind other folders.
const SYSTEM: &str = "/etc/ld.so.conf.d/zz-nvcr-nvidia-cdi-hook.conf";

/// The folders that every build of `ldconfig` searches without configuration. The image's other system folders are
/// searched because [`SYSTEM`] has them, if the image's configuration includes that file.
const EVERYWHERE: [&str; 2] = ["/lib", "/usr/lib"];

/// Far more than an image's files have.
const MAX_FILE: u64 = 1 << 20;
/// Maximum number of files that include each other.
const MAX_FILES: usize = 1000;

/// Adds folders to the loader's configuration. Returns those that `ldconfig` must get as arguments, because the
/// image's configuration does not include its `ld.so.conf.d`.
///
/// A folder that the image has configured, or that its loader searches anyway, keeps its place: it is not moved
/// ahead of the image's other folders. The image's own system folders come last, since the host's `ldconfig` may have
/// others.
pub(crate) fn add_folders(root: &Root, folders: &[String]) -> Result<Vec<String>, HookError> {
    let main = Path::new(MAIN);
    let text = format!("include {FOLDER}/*.conf\n");
    let created = root.create_file(main, &text);
    created.map_err(HookError::at("create", main))?;
    let system = system_folders(root)?;
    let mut known = configured(root);
    known.extend(system.iter().cloned());
    add_own(root, folders, &known)?;
    let lines: String = system
        .iter()
        .flat_map(|folder| [folder.as_str(), "\n"])
        .collect();
    let written = root.replace_file(Path::new(SYSTEM), &lines, 0o644);
    written.map_err(HookError::at("write", Path::new(SYSTEM)))?;
    musl::add_folders(root, folders)?;
    let reached = configured(root);
    let is_reached = |folder: &str| EVERYWHERE.contains(&folder) || reached.contains(folder);
    let unreached = folders.iter().filter(|it| !is_reached(normal(it)));
    Ok(unreached.cloned().collect())
}

/// Adds the folders that are not known to this program's file, which another hook of the container may have begun.
fn add_own(root: &Root, folders: &[String], known: &BTreeSet<String>) -> Result<(), HookError> {
    let path = Path::new(OWN);
    let existing = root
        .read(path, MAX_FILE)
        .map_err(HookError::at("read", path))?;
    let mut text = String::from_utf8_lossy(&existing.unwrap_or_default()).into_owned();
    let mut seen: BTreeSet<&str> = known.iter().map(String::as_str).collect();
    let own = text.clone();
    seen.extend(own.lines());
    for folder in folders {
        if seen.insert(normal(folder)) {
            text.push_str(normal(folder));
            text.push('\n');
        }
    }
    if text == own {
        return Ok(());
    }
    let written = root.replace_file(path, &text, 0o644);
    written.map_err(HookError::at("write", path))
}

/// The folders that the image's dynamic loader searches without configuration, as `ldconfig` of its distribution has
/// them: Debian's has the folders of its architecture, others `lib64` and `libx32`.
fn system_folders(root: &Root) -> Result<Vec<String>, HookError> {
    let marker = Path::new("/etc/debian_version");
    let is_debian = root.has_file(marker);
    let is_debian = is_debian.map_err(HookError::at("open", marker))?;
    let arch = std::env::consts::ARCH;
    let mut folders: Vec<String> = ["/lib", "/usr/lib"].map(str::to_owned).into();
    if is_debian {
        let own = ["/lib", "/usr/lib"].map(|folder| format!("{folder}/{arch}-linux-gnu"));
        folders.splice(0..0, own);
        return Ok(folders);
    }
    folders.extend(["/lib64", "/usr/lib64"].map(str::to_owned));
    // Only the other architecture has the x32 ABI.
    if arch != "aarch64" {
        folders.extend(["/libx32", "/usr/libx32"].map(str::to_owned));
    }
    Ok(folders)
}

/// All folders that the configuration and the files that it includes name. `ldconfig` ignores what it cannot read.
fn configured(root: &Root) -> BTreeSet<String> {
    let mut folders = BTreeSet::new();
    let mut pending = vec![PathBuf::from(MAIN)];
    let mut seen = BTreeSet::new();
    while let Some(path) = pending.pop() {
        if seen.len() == MAX_FILES || !seen.insert(path.clone()) {
            continue;
        }
        let bytes = root.read(&path, MAX_FILE).ok().flatten();
        let text = String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned();
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let include = line.strip_prefix("include");
            if let Some(patterns) = include.filter(|it| it.starts_with([' ', '\t'])) {
                let patterns = patterns.split_whitespace();
                pending.extend(patterns.flat_map(|pattern| included(root, &path, pattern)));
            } else if !line.is_empty() {
                folders.insert(normal(line).to_owned());
            }
        }
    }
    folders
}

/// The files that a pattern of `file` names. Wildcards in names of directories are not expanded.
fn included(root: &Root, file: &Path, pattern: &str) -> Vec<PathBuf> {
    let folder = file.parent().unwrap_or(file);
    let pattern = folder.join(pattern);
    let (Some(folder), Some(name)) = (pattern.parent(), pattern.file_name()) else {
        return Vec::new();
    };
    let name = name.as_encoded_bytes();
    let entries = root.list(folder).ok().flatten().unwrap_or_default();
    let matching = entries
        .into_iter()
        .filter(|it| matches(name, it.name.as_bytes()));
    matching.map(|entry| folder.join(entry.name)).collect()
}

/// Whether a name matches a pattern of `*`, `?` and other bytes. Only the last `*` is tried at other lengths, so a
/// pattern with many of them takes no exponential time.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut pattern, mut name) = (pattern, name);
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        match (pattern, name) {
            ([b'*', rest @ ..], _) => {
                retry = Some((rest, name));
                pattern = rest;
            }
            ([], []) => return true,
            ([b'?', rest @ ..], [_, after @ ..]) => (pattern, name) = (rest, after),
            ([a, rest @ ..], [b, after @ ..]) if a == b => (pattern, name) = (rest, after),
            _ => match retry {
                Some((rest, [_, after @ ..])) => {
                    retry = Some((rest, after));
                    (pattern, name) = (rest, after);
                }
                _ => return false,
            },
        }
    }
}

/// A folder as it is compared: without a slash at the end.
fn normal(folder: &str) -> &str {
    let folder = folder.trim();
    let short = folder.trim_end_matches('/');
    if short.is_empty() { folder } else { short }
}

#[cfg(test)]
#[path = "loader_config_tests.rs"]
mod tests;
