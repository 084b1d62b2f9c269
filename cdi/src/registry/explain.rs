//! Why a name resolves to one file rather than another, or to none.

use std::path::Path;

use super::dir::{DirState, SpecDir};
use super::file::{self, LoadError, SpecFile};
use super::ignored::{self, IgnoredFile};
use super::index::Registry;
use super::resolution::{CONFLICT_CODE, CONFLICT_HINT, Conflict, ResolveError, Resolved};
use super::suggestion::{self, Suggestion};
use super::text_search::{has_only_other_kinds, may_define};
use crate::QualifiedName;

/// The facts about why one name resolves as it does, for a program to present.
#[derive(Debug)]
#[non_exhaustive]
pub struct Explanation<'a> {
    /// The result of [`Registry::resolve`].
    pub resolution: Result<Resolved<'a>, ResolveError>,
    /// The files that define the device, and refused files that probably should,
    /// in the order of [`Registry::files`].
    pub candidates: Vec<Candidate<'a>>,
    /// Devices with a similar name, ascending by name, each once: from the file
    /// of the last directory that defines it.
    pub suggestions: Vec<Suggestion<'a>>,
    /// Files that no runtime reads, with the device's name in them.
    pub ignored: Vec<IgnoredFile>,
    /// Whether `ignored` may lack some: a directory has more such files than are
    /// searched (4 096 files and subdirectories, 16 MiB of text; none longer than
    /// [`MAX_SPEC_LEN`](crate::MAX_SPEC_LEN)).
    pub ignored_truncated: bool,
    /// The directories that were not read, with their state.
    pub unread_dirs: Vec<&'a SpecDir>,
    /// How many other devices of its kind resolve. 0 suggests that no driver of
    /// this kind runs on the host.
    pub others_of_kind: usize,
}

/// A file that defines a device, or probably should.
#[derive(Debug)]
#[non_exhaustive]
pub struct Candidate<'a> {
    /// The file.
    pub file: &'a SpecFile,
    /// Whether the name resolves to it, and why not.
    pub verdict: Verdict<'a>,
}

/// Whether a name resolves to a candidate, and why not.
#[derive(Debug)]
#[non_exhaustive]
pub enum Verdict<'a> {
    /// The name resolves to this file's device.
    Wins(Resolved<'a>),
    /// A file of a later directory defines the device too, and wins.
    Shadowed {
        /// The file that wins; the same path if a directory is given twice.
        by: &'a SpecFile,
    },
    /// Other files of the same directory define the device too: none wins.
    Conflicts {
        /// The others.
        with: Vec<&'a SpecFile>,
    },
    /// The only file of its directory that defines the device, which resolves to
    /// none because of a conflict in another directory.
    Voided {
        /// The files in conflict.
        by: Vec<&'a SpecFile>,
    },
    /// The file could not be loaded, and probably should define the device.
    Refused {
        /// Why it was not loaded.
        error: &'a LoadError,
        /// Why it probably should define the device.
        evidence: Evidence,
    },
}

/// Why a file that could not be loaded probably should define a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Evidence {
    /// Its text has the device's kind and its name.
    Text,
    /// Its file name begins with `<vendor>-<class>`, as Go's library and most
    /// drivers name the files of a kind. The only evidence in an empty file.
    FileName,
    /// None: its text cannot be read, so that it may define anything. Such a
    /// file is a candidate only for a device that does not resolve.
    Unreadable,
}

// === impl Registry ===

impl Registry {
    /// Why `name` resolves as it does: the files that define it, refused files
    /// that probably should, similar names, and files with the name that no
    /// runtime reads.
    ///
    /// Resolution is that of the loaded registry; refused and ignored files are
    /// read again, as they are now.
    pub fn explain(&self, name: &QualifiedName) -> Explanation<'_> {
        let (ignored, ignored_truncated) = ignored::find(&self.dirs, name);
        let unread = |dir: &&SpecDir| !matches!(dir.state, DirState::Listed);
        let of_kind = self.devices().filter(|other| {
            other.spec.kind() == name.kind() && other.device.name != *name.device()
        });
        Explanation {
            resolution: self.resolve(name),
            candidates: self.candidates(name),
            suggestions: suggestion::find(self, name),
            ignored,
            ignored_truncated,
            unread_dirs: self.dirs.iter().filter(unread).collect(),
            others_of_kind: of_kind.count(),
        }
    }

    fn candidates(&self, name: &QualifiedName) -> Vec<Candidate<'_>> {
        let group = self.group(name);
        let winner = self.winner(group);
        let conflicts = self.conflicts_in(group);
        let mut definitions = group.iter().map(|entry| self.resolved(*entry)).peekable();
        let mut candidates = Vec::new();
        // Definitions are in the order of their files, at most one to a file.
        for file in &self.files {
            let definition = definitions.next_if(|found| std::ptr::eq(found.file, file));
            let verdict = match (definition, &file.spec) {
                (Some(found), _) => Some(verdict(found, winner, &conflicts)),
                (None, Err(error)) => evidence(file, error, name)
                    .filter(|evidence| winner.is_none() || *evidence != Evidence::Unreadable)
                    .map(|evidence| Verdict::Refused { error, evidence }),
                (None, Ok(_)) => None,
            };
            candidates.extend(verdict.map(|verdict| Candidate { file, verdict }));
        }
        candidates
    }
}

fn verdict<'a>(
    found: Resolved<'a>,
    winner: Option<Resolved<'a>>,
    conflicts: &[Conflict<'a>],
) -> Verdict<'a> {
    if let Some(winner) = winner {
        if std::ptr::eq(winner.file, found.file) {
            return Verdict::Wins(winner);
        }
        return Verdict::Shadowed { by: winner.file };
    }
    let is_found = |file: &&SpecFile| std::ptr::eq(*file, found.file);
    let own = conflicts.iter().find(|c| c.files.iter().any(is_found));
    if let Some(own) = own {
        let others = own.files.iter().copied().filter(|file| !is_found(file));
        return Verdict::Conflicts {
            with: others.collect(),
        };
    }
    let by = conflicts.iter().flat_map(|c| c.files.iter().copied());
    Verdict::Voided { by: by.collect() }
}

fn evidence(file: &SpecFile, error: &LoadError, name: &QualifiedName) -> Option<Evidence> {
    if !matches!(error, LoadError::Invalid { .. }) {
        return Some(Evidence::Unreadable);
    }
    match file::read(&file.path) {
        Err(_) => Some(Evidence::Unreadable),
        Ok(text) if may_define(&text, name) => Some(Evidence::Text),
        Ok(text) if has_only_other_kinds(&text, name.kind()) => None,
        Ok(_) => is_named_after(&file.path, name).then_some(Evidence::FileName),
    }
}

fn is_named_after(path: &Path, name: &QualifiedName) -> bool {
    let prefix = format!("{}-{}", name.kind().vendor(), name.kind().class());
    let found = path.file_name().and_then(|name| name.to_str());
    let rest = found.and_then(|name| name.strip_prefix(&prefix));
    rest.is_some_and(|rest| rest.starts_with(['_', '.']))
}

// === impl Verdict ===

impl Verdict<'_> {
    /// A stable word for it; of a refused file, that of its error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Wins(_) => "cdi-device-wins",
            Self::Shadowed { .. } => "cdi-device-shadowed",
            Self::Conflicts { .. } => CONFLICT_CODE,
            Self::Voided { .. } => "cdi-device-voided",
            Self::Refused { error, .. } => error.code(),
        }
    }

    /// What to do about it, unless it wins.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Wins(_) => None,
            Self::Shadowed { .. } => {
                Some("to use this file's device, remove the device from the other file")
            }
            Self::Conflicts { .. } => Some(CONFLICT_HINT),
            Self::Voided { .. } => Some("resolve the conflict in the other directory"),
            Self::Refused { error, .. } => Some(error.hint()),
        }
    }
}
