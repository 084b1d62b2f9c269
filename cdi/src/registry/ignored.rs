//! Files in and under CDI directories that no runtime reads.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use dra_common::Advice;

use super::dir::{self, DirError, DirState, SpecDir};
use super::file;
use super::text_search::may_define;
use crate::{QualifiedName, Spec};

/// How many files and subdirectories of one directory are searched.
const MAX_FILES: usize = 4096;

/// How many bytes of text are read in one directory before the search ends,
/// 16 MiB: enough for 4 096 files of 4 kB, which is ten claim specs each.
const MAX_TEXT: usize = 16 << 20;

/// How many levels of subdirectories are searched: a spec that was misplaced by
/// mistake is rarely deeper.
const MAX_DEPTH: usize = 3;

/// A file with a device's name in it that no runtime reads.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct IgnoredFile {
    /// The file.
    pub path: PathBuf,
    /// Why no runtime reads it.
    pub reason: IgnoredReason,
    /// Whether it is a valid spec that defines the device. If not, its text has
    /// the device's name, and no other kind than the device's.
    pub defines: bool,
}

/// Why no runtime reads a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Advice)]
#[non_exhaustive]
pub enum IgnoredReason {
    /// Its name ends neither in `.json` nor in `.yaml` (`.yml`, `.YAML`).
    #[advice(
        code = "cdi-file-extension",
        hint = "rename the file so that its name ends in .json or .yaml, in lower case"
    )]
    Extension,
    /// Its name shows that an editor, a package manager or a person left it beside another file
    /// (`x.json~`, `x.yaml.bak`, `.x.json.swp`).
    #[advice(
        code = "cdi-file-leftover",
        hint = "remove the backup copy or, if its content is correct, replace the original file with the copy"
    )]
    Leftover,
    /// Its name ends in `.tmp`: an unfinished or interrupted write.
    #[advice(
        code = "cdi-file-temporary",
        hint = "let the driver write the spec again; if no driver is writing this file now, remove it"
    )]
    Temporary,
    /// It is in a subdirectory of a CDI directory.
    #[advice(
        code = "cdi-file-in-subdirectory",
        hint = "move the file up into the CDI directory"
    )]
    Subdirectory,
    /// Its CDI directory is a symbolic link.
    #[advice(
        code = "cdi-directory-link",
        hint = "replace the link with a directory (or a bind mount), or configure the link's target in the runtime"
    )]
    LinkedDirectory,
}

/// The search of one directory.
struct Search<'a> {
    name: &'a QualifiedName,
    /// How many more files may be searched.
    files_left: usize,
    /// How many more bytes may be read before the search ends.
    text_left: usize,
    /// Whether the search ended before everything was searched.
    truncated: bool,
    found: Vec<IgnoredFile>,
}

/// The ignored files in and under `dirs` that have `name` in them, and whether
/// there were too many to search them all.
pub(super) fn find(dirs: &[SpecDir], name: &QualifiedName) -> (Vec<IgnoredFile>, bool) {
    let mut found = Vec::new();
    let mut truncated = false;
    for (index, dir) in dirs.iter().enumerate() {
        let given_before = dirs.iter().take(index).any(|other| other.path == dir.path);
        let reason = match dir.state {
            DirState::Listed if dir::is_own_dir(&dir.path) => None,
            DirState::Skipped(DirError::Link { .. }) => Some(IgnoredReason::LinkedDirectory),
            // A spec file in a directory's place, or nothing that could be listed.
            DirState::Listed | DirState::Skipped(_) | DirState::Absent => continue,
        };
        if given_before {
            continue;
        }
        let mut search = Search {
            name,
            files_left: MAX_FILES,
            text_left: MAX_TEXT,
            truncated: false,
            found: Vec::new(),
        };
        search.dir(&dir.path, reason, 0);
        truncated |= search.truncated;
        found.append(&mut search.found);
    }
    (found, truncated)
}

/// Endings that editors, package managers and people add to a file's name.
const LEFTOVERS: [&[u8]; 12] = [
    b"~",
    b"#",
    b".bak",
    b".backup",
    b".old",
    b".orig",
    b".save",
    b".swp",
    b".swo",
    b".rpmnew",
    b".rpmsave",
    b".dpkg-old",
];

fn is_temp_file(name: &[u8]) -> bool {
    name.starts_with(b".#") || LEFTOVERS.iter().any(|end| name.ends_with(end))
}

// === impl Search ===

impl Search<'_> {
    /// Searches `dir`. With a `reason` all its files are ignored for it; without,
    /// those whose names no runtime reads.
    fn dir(&mut self, dir: &Path, reason: Option<IgnoredReason>, depth: usize) {
        // A directory that cannot be listed adds nothing.
        let Ok(names) = dir::names(dir) else { return };
        for name in names {
            if self.files_left == 0 || self.text_left == 0 {
                self.truncated = true;
                return;
            }
            let path = dir.join(&name);
            if dir::is_own_dir(&path) {
                if depth < MAX_DEPTH {
                    self.files_left -= 1;
                    self.dir(
                        &path,
                        reason.or(Some(IgnoredReason::Subdirectory)),
                        depth + 1,
                    );
                }
            } else if dir::is_spec_name(&name) {
                // Without a reason it is in the registry.
                if let Some(reason) = reason {
                    self.file(&path, reason);
                }
            } else if name.as_bytes().ends_with(b".tmp") {
                self.file(&path, IgnoredReason::Temporary);
            } else if is_temp_file(name.as_bytes()) {
                self.file(&path, IgnoredReason::Leftover);
            } else {
                self.file(&path, IgnoredReason::Extension);
            }
        }
    }

    fn file(&mut self, path: &Path, reason: IgnoredReason) {
        self.files_left = self.files_left.saturating_sub(1);
        let Ok(text) = file::read(path) else { return };
        self.text_left = self.text_left.saturating_sub(text.len());
        let defines = Spec::parse(&text).is_ok_and(|spec| {
            spec.kind() == self.name.kind()
                && spec.devices().iter().any(|d| d.name == *self.name.device())
        });
        if defines || may_define(&text, self.name) {
            self.found.push(IgnoredFile {
                path: path.to_owned(),
                reason,
                defines,
            });
        }
    }
}
