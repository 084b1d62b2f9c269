//! What `gc` prints, as data.

use std::io::{self, Write};
use std::path::PathBuf;

use compute_domain_node::error_chain;
use host_doctor::{ClaimSpecFile, counted};
use imex_cdi::ClaimSpecsError;
use serde::Serialize;

use super::error::GcError;
use crate::escape::escape;
use crate::outcome::Outcome;
use crate::output::Report;
use crate::style::Style;
use crate::table;

#[derive(Debug, Serialize)]
pub(super) struct GcReport {
    schema: &'static str,
    /// The last of `dirs`.
    dir: String,
    /// The directories that were searched.
    dirs: Vec<String>,
    /// The number of claims that are known to live.
    live: usize,
    orphans: Vec<Orphan>,
    /// Why the first spec that could not be removed was not.
    #[serde(skip)]
    first_error: Option<ClaimSpecsError>,
}

/// A spec of a claim that does not live.
#[derive(Debug, Serialize)]
struct Orphan {
    file: String,
    claim: String,
    removed: bool,
    /// Why it could not be removed.
    error: Option<String>,
}

// === impl GcReport ===

impl GcReport {
    pub(super) fn new(dirs: &[PathBuf], live: usize) -> Self {
        let dirs: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
        Self {
            schema: "cdi-gen/gc/v1",
            dir: dirs.last().cloned().unwrap_or_default(),
            dirs,
            live,
            orphans: vec![],
            first_error: None,
        }
    }

    /// An orphan that is kept.
    pub(super) fn add(&mut self, spec: &ClaimSpecFile) {
        self.orphans.push(Orphan::new(spec));
    }

    /// An orphan and whether it was removed.
    pub(super) fn add_removal(
        &mut self,
        spec: &ClaimSpecFile,
        removal: Result<(), ClaimSpecsError>,
    ) {
        self.orphans.push(Orphan {
            removed: removal.is_ok(),
            error: removal.as_ref().err().map(|error| error_chain(error)),
            ..Orphan::new(spec)
        });
        if let Err(error) = removal {
            self.first_error.get_or_insert(error);
        }
    }

    /// Why orphans could not be removed, each.
    pub(super) fn errors(&self) -> impl Iterator<Item = &str> {
        self.orphans.iter().filter_map(|it| it.error.as_deref())
    }

    /// An orphan that is still there is a finding; one that could not be
    /// removed, an error.
    pub(super) fn outcome(self) -> Result<Outcome, GcError> {
        let count = self.errors().count();
        if let Some(first) = self.first_error {
            return Err(GcError::Left { count, first });
        }
        Ok(if self.orphans.iter().all(|orphan| orphan.removed) {
            Outcome::Clean
        } else {
            Outcome::Findings
        })
    }
}

impl Report for GcReport {
    fn write_text(&self, _: Style, output: &mut impl Write) -> io::Result<()> {
        if self.orphans.is_empty() {
            let live = counted(self.live, "claim");
            let dirs = escape(&self.dirs.join(", "));
            return writeln!(
                output,
                "nothing to remove: no orphan in {dirs} ({live} known)"
            );
        }
        let rows = self.orphans.iter().map(|orphan| {
            let state = if orphan.removed { "removed" } else { "orphan" };
            [orphan.claim.clone(), state.to_owned(), orphan.file.clone()]
        });
        table::write(["CLAIM UID", "STATE", "FILE"], rows, output)
    }
}

// === impl Orphan ===

impl Orphan {
    fn new(spec: &ClaimSpecFile) -> Self {
        Self {
            file: spec.path.display().to_string(),
            claim: spec.uid.to_string(),
            removed: false,
            error: None,
        }
    }
}
