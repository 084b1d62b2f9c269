//! `cdi-gen gc`: claim specs that no claim needs.
//!
//! A spec is written after the record of its claim, and removed before it. So
//! a spec without a record, seen while the plugin's lock keeps records from
//! being added, is an orphan: nobody will ever remove it but the plugin's next
//! start, or this.

mod error;
mod live;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use compute_domain_node::with_sources;
use dra_checkpoint::LOCK_FILE;
use durable_file::{Dir, OsDir};
use imex_cdi::{ClaimSpecs, ClaimSpecsError, Kind};
use serde::Serialize;

pub(crate) use self::error::{GcError, refusal_hint};
use self::live::Live;
use crate::args::Gc;
use crate::claims::{self, DRIVER, SpecOfClaim};
use crate::failure::{Failure, Outcome, note};
use crate::printable::write_json;
use crate::root::{Root, is_usual};
use crate::table;

const SCHEMA: &str = "cdi-gen/gc/v1";

/// As long as the plugin itself waits for its lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize)]
struct Report {
    schema: &'static str,
    /// The last of `dirs`.
    dir: String,
    /// Those that were looked into.
    dirs: Vec<String>,
    /// How many claims live, as far as it is known.
    live: usize,
    orphans: Vec<Orphan>,
    /// Why the first that is left is left.
    #[serde(skip)]
    failed: Option<ClaimSpecsError>,
}

#[derive(Debug, Serialize)]
struct Orphan {
    file: String,
    claim: String,
    removed: bool,
    /// Why it was not removed, though it should have been.
    error: Option<String>,
}

/// Where things are.
struct Place {
    /// kubelet's root.
    kubelet: PathBuf,
    /// The plugin's directory in it.
    plugin: PathBuf,
    /// Those of the specs, each once.
    dirs: Vec<PathBuf>,
}

pub(crate) fn run(args: &Gc, output: &mut impl Write) -> Result<Outcome, Failure> {
    let root = Root::new(&args.root)?;
    let plugin = args.kubelet.path.join("plugins").join(DRIVER);
    let place = Place {
        kubelet: root.path(&args.kubelet.path),
        plugin: root.path(&plugin),
        dirs: dirs(&root, &args.dirs)?,
    };
    let report = if args.remove {
        place.remove(args)?
    } else {
        place.list(args)?
    };
    if args.json {
        write_json(&report, output)
    } else {
        write_table(&report, output)
    }
    .map_err(Failure::Output)?;
    report.outcome()
}

/// Where the directories are. A usual one that does not exist is as good as an
/// empty one; another is misspelt, or the host is not as it was thought to be.
fn dirs(root: &Root, named: &[PathBuf]) -> Result<Vec<PathBuf>, GcError> {
    let mut seen = BTreeSet::new();
    let mut dirs = Vec::new();
    for dir in named {
        let at = root.behind(dir);
        let is_new = match at.canonicalize() {
            Ok(real) => seen.insert(real),
            Err(source) if source.kind() == io::ErrorKind::NotFound && !is_usual(dir) => {
                return Err(GcError::Dir { path: at, source });
            }
            // What is wrong with it is told where it is listed.
            Err(_) => true,
        };
        if is_new {
            dirs.push(at);
        }
    }
    Ok(dirs)
}

fn write_table(report: &Report, output: &mut impl Write) -> io::Result<()> {
    let rows = report.orphans.iter().map(|orphan| {
        let state = if orphan.removed { "removed" } else { "orphan" };
        [orphan.claim.clone(), state.to_owned(), orphan.file.clone()]
    });
    table::write(["CLAIM UID", "STATE", "FILE"], rows, output)?;
    // What there is comes before what is said of it.
    output.flush()?;
    for orphan in &report.orphans {
        if let Some(error) = &orphan.error {
            note(error);
        }
    }
    Ok(())
}

// === impl Place ===

impl Place {
    fn list(&self, args: &Gc) -> Result<Report, GcError> {
        let live = Live::read(&self.plugin, &self.kubelet, &args.live)?;
        let mut report = self.report(&live);
        for dir in &self.dirs {
            let orphans = orphans(dir, &live)?;
            report.orphans.extend(orphans.iter().map(Orphan::of));
        }
        Ok(report)
    }

    /// Under the lock from before the checkpoint is read until the last spec is
    /// removed.
    fn remove(&self, args: &Gc) -> Result<Report, GcError> {
        let locked = OsDir::open(&self.plugin).and_then(|plugin| {
            let lock = plugin.lock(LOCK_FILE, LOCK_TIMEOUT)?;
            Ok((lock, plugin))
        });
        let (_lock, _plugin) = locked.map_err(|source| GcError::Lock { source })?;
        let live = Live::read(&self.plugin, &self.kubelet, &args.live)?;
        let mut report = self.report(&live);
        // None is removed before all are known.
        let mut found = Vec::new();
        for dir in &self.dirs {
            found.push((dir, orphans(dir, &live)?));
        }
        for (dir, orphans) in found.into_iter().filter(|(_, it)| !it.is_empty()) {
            let dir = OsDir::open(dir).map_err(|source| GcError::Specs { source })?;
            let specs = ClaimSpecs::new(Arc::new(dir), Kind::compute_domain_claim());
            for spec in orphans {
                report.add(&spec, specs.remove(&spec.uid));
            }
        }
        Ok(report)
    }

    fn report(&self, live: &Live) -> Report {
        let dirs = self.dirs.iter().map(|dir| dir.display().to_string());
        let dirs: Vec<String> = dirs.collect();
        Report {
            schema: SCHEMA,
            dir: dirs.last().cloned().unwrap_or_default(),
            dirs,
            live: live.count(),
            orphans: vec![],
            failed: None,
        }
    }
}

fn orphans(dir: &Path, live: &Live) -> Result<Vec<SpecOfClaim>, GcError> {
    let mut specs = claims::of_dir(dir).map_err(|source| GcError::List {
        path: dir.to_owned(),
        source,
    })?;
    specs.retain(|spec| !live.has(&spec.uid));
    Ok(specs)
}

// === impl Orphan ===

impl Orphan {
    fn of(spec: &SpecOfClaim) -> Self {
        Self {
            file: spec.path.display().to_string(),
            claim: spec.uid.to_string(),
            removed: false,
            error: None,
        }
    }
}

// === impl Report ===

impl Report {
    fn add(&mut self, spec: &SpecOfClaim, removed: Result<(), ClaimSpecsError>) {
        self.orphans.push(Orphan {
            removed: removed.is_ok(),
            error: removed.as_ref().err().map(|error| with_sources(error)),
            ..Orphan::of(spec)
        });
        if let Err(error) = removed {
            self.failed.get_or_insert(error);
        }
    }

    /// An orphan that is left is a finding; one that could not be removed, a
    /// failure.
    fn outcome(self) -> Result<Outcome, Failure> {
        let count = self.orphans.iter().filter(|it| it.error.is_some()).count();
        if let Some(first) = self.failed {
            return Err(GcError::Left { count, first }.into());
        }
        Ok(if self.orphans.iter().all(|orphan| orphan.removed) {
            Outcome::Clean
        } else {
            Outcome::Findings
        })
    }
}
