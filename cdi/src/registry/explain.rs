//! Why a name resolves to this file and not to that, or to none.

use std::path::Path;

use super::mention::{is_of_another_kind, speaks_of};
use super::{Conflict, IgnoredFile, LoadError, NearMiss, Registry, Resolved, SpecDir, SpecFile};
use super::{DirState, Unresolved, answer, file, ignored, near};
use crate::QualifiedName;

/// All that has a bearing on one name, as data for whoever words it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Explanation<'a> {
    /// What [`Registry::resolve`] says.
    pub answer: Result<Resolved<'a>, Unresolved>,
    /// The files that define the device or that may be meant to, in the order
    /// of [`Registry::files`].
    pub candidates: Vec<Candidate<'a>>,
    /// Devices that resemble it, ascending by name, each once: from the file of
    /// the last directory that defines it.
    pub near: Vec<NearMiss<'a>>,
    /// Files with the device's name in them that no runtime looks at.
    pub ignored: Vec<IgnoredFile>,
    /// Whether there were more such files in a directory than are looked at
    /// (4 096 files and subdirectories, 16 MiB of text), so that
    /// `ignored` may lack some.
    pub ignored_cut: bool,
    /// The directories of which no file was read, with their state.
    pub unread_dirs: Vec<&'a SpecDir>,
    /// How many other devices of its kind resolve. With none, no driver of
    /// this kind is at work here.
    pub others_of_kind: usize,
}

/// A file that defines a device, or that may be meant to.
#[derive(Debug)]
#[non_exhaustive]
pub struct Candidate<'a> {
    /// The file.
    pub file: &'a SpecFile,
    /// What became of it.
    pub verdict: Verdict<'a>,
}

/// What became of a candidate.
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
    /// Alone in its directory, but the device is in conflict in another, which
    /// takes it away everywhere.
    Voided {
        /// The files in conflict.
        by: Vec<&'a SpecFile>,
    },
    /// The file defines nothing, and something says that it should.
    Refused {
        /// Why it defines nothing.
        error: &'a LoadError,
        /// Why it is thought to be meant.
        evidence: Evidence,
    },
}

/// Why a file that defines nothing is thought to be meant to define a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Evidence {
    /// The device's name is in its text, and no other kind.
    Text,
    /// Its own name begins with `<vendor>-<class>`, as Go's library and most
    /// drivers name the files of a kind. An empty file has no other sign.
    FileName,
    /// Its text cannot be read, so that nothing speaks against it. Of a device
    /// that resolves, no such file is a candidate.
    Unread,
}

// === impl Registry ===

impl Registry {
    /// What has a bearing on `name`: the files that define it and their fate,
    /// refused files that may be meant to, similar names, and files that have
    /// it but are not looked at.
    ///
    /// Reads what the registry does not hold (refused and ignored files), as
    /// it is by now.
    pub fn explain(&self, name: &QualifiedName) -> Explanation<'_> {
        let (ignored, ignored_cut) = ignored::find(&self.dirs, name);
        let unread = |dir: &&SpecDir| !matches!(dir.state, DirState::Listed);
        let of_kind = self.devices().filter(|other| {
            other.spec.kind() == name.kind() && other.device.name != *name.device()
        });
        Explanation {
            answer: self.resolve(name),
            candidates: self.candidates(name),
            near: near::find(self, name),
            ignored,
            ignored_cut,
            unread_dirs: self.dirs.iter().filter(unread).collect(),
            others_of_kind: of_kind.count(),
        }
    }

    fn candidates(&self, name: &QualifiedName) -> Vec<Candidate<'_>> {
        let group = self.group(name);
        let winner = self.winner(group);
        let conflicts = self.conflicts_in(group);
        let mut definitions = group.iter().map(|slot| self.at(*slot)).peekable();
        let mut candidates = Vec::new();
        // Definitions are in the order of their files, at most one to a file.
        for file in &self.files {
            let definition = definitions.next_if(|found| std::ptr::eq(found.file, file));
            let verdict = match (definition, &file.spec) {
                (Some(found), _) => Some(verdict(found, winner, &conflicts)),
                (None, Err(error)) => evidence(file, error, name)
                    .filter(|evidence| winner.is_none() || *evidence != Evidence::Unread)
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
        return Some(Evidence::Unread);
    }
    match file::read(&file.path) {
        Err(_) => Some(Evidence::Unread),
        Ok(text) if speaks_of(&text, name) => Some(Evidence::Text),
        Ok(text) if is_of_another_kind(&text, name.kind()) => None,
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
            Self::Conflicts { .. } => answer::CONFLICT_CODE,
            Self::Voided { .. } => "cdi-device-voided",
            Self::Refused { error, .. } => error.code(),
        }
    }

    /// What to do about it, unless it wins.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Wins(_) => None,
            Self::Shadowed { .. } => Some("to have this file's device, remove it from the other"),
            Self::Conflicts { .. } => Some(answer::CONFLICT_HINT),
            Self::Voided { .. } => Some("settle the conflict in the other directory"),
            Self::Refused { error, .. } => Some(error.hint()),
        }
    }
}
