//! The findings of `validate`.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::args::Level;

/// How many findings of one code are told of a file. Every few bytes of a spec may have
/// one, and every device of a directory may be in conflict.
pub(super) const LIMIT: usize = 100;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    pub(super) level: Level,
    /// The file or directory.
    pub(super) file: String,
    /// Path of the field in JSON.
    pub(super) field: Option<String>,
    pub(super) line: Option<usize>,
    pub(super) column: Option<usize>,
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) fix: String,
}

/// The findings of a file that are not told.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct More {
    pub(super) level: Level,
    pub(super) file: String,
    pub(super) code: &'static str,
    pub(super) count: usize,
}

/// Takes findings, and keeps those that are told.
pub(super) struct Findings {
    /// The lowest that is told.
    level: Level,
    told: Vec<Finding>,
    /// By file.
    counts: BTreeMap<String, BTreeMap<(Level, &'static str), usize>>,
}

// === impl Finding ===

impl Finding {
    /// About a file as a whole.
    pub(super) fn error(
        file: &str,
        code: &'static str,
        message: String,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Error,
            file: file.to_owned(),
            field: None,
            line: None,
            column: None,
            code,
            message,
            fix: fix.into(),
        }
    }

    pub(super) fn in_field(self, field: String) -> Self {
        Self {
            field: Some(field),
            ..self
        }
    }
}

// === impl Findings ===

impl Findings {
    pub(super) fn new(level: Level) -> Self {
        Self {
            level,
            told: Vec::new(),
            counts: BTreeMap::new(),
        }
    }

    pub(super) fn push(&mut self, finding: Finding) {
        if self.count(finding.level, &finding.file, finding.code) {
            self.told.push(finding);
        }
    }

    /// One of those of which there may be very many: it is made only to be told.
    pub(super) fn push_with(
        &mut self,
        level: Level,
        file: &str,
        code: &'static str,
        finding: impl FnOnce() -> Finding,
    ) {
        if self.count(level, file, code) {
            self.told.push(finding());
        }
    }

    /// Those that are told, and how many more there are.
    pub(super) fn finish(self) -> (Vec<Finding>, Vec<More>) {
        let Self { told, counts, .. } = self;
        let files = counts.into_iter();
        let more = files.flat_map(|(file, codes)| {
            let untold = codes.into_iter().filter(|(_, count)| *count > LIMIT);
            untold.map(move |((level, code), count)| More {
                level,
                file: file.clone(),
                code,
                count: count - LIMIT,
            })
        });
        (told, more.collect())
    }

    /// Whether it is told.
    fn count(&mut self, level: Level, file: &str, code: &'static str) -> bool {
        if level < self.level {
            return false;
        }
        if !self.counts.contains_key(file) {
            self.counts.insert(file.to_owned(), BTreeMap::new());
        }
        let Some(codes) = self.counts.get_mut(file) else {
            return false;
        };
        let count = codes.entry((level, code)).or_default();
        *count += 1;
        *count <= LIMIT
    }
}

impl Extend<Finding> for Findings {
    fn extend<T: IntoIterator<Item = Finding>>(&mut self, findings: T) {
        for finding in findings {
            self.push(finding);
        }
    }
}
