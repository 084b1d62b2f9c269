//! `cdi-gen gc`: claim specs that no claim needs.
//!
//! A spec is written after the record of its claim, and removed before it. So
//! a spec without a record, seen while the plugin's lock keeps records from
//! being added, is an orphan: nobody will ever remove it but the plugin's next
//! start, or this.

mod error;
mod live;

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use compute_domain_node::with_sources;
use dra_checkpoint::LOCK_FILE;
use durable_file::{Dir, OsDir};
use imex_cdi::{ClaimSpecs, Kind};
use serde::Serialize;

pub(crate) use self::error::GcError;
use self::live::Live;
use crate::args::Gc;
use crate::claims::{self, DRIVER, SpecOfClaim};
use crate::failure::{Failure, Outcome, note};
use crate::printable::write_json;
use crate::root::Root;
use crate::table;

const SCHEMA: &str = "cdi-gen/gc/v1";

/// As long as the plugin itself waits for its lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Serialize)]
struct Report {
    schema: &'static str,
    /// That of the specs.
    dir: String,
    /// How many claims live, as far as it is known.
    live: usize,
    orphans: Vec<Orphan>,
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
    /// That of the specs.
    dir: PathBuf,
}

pub(crate) fn run(args: &Gc, output: &mut impl Write) -> Result<Outcome, Failure> {
    let root = Root::new(&args.root)?;
    let plugin = args.kubelet.path.join("plugins").join(DRIVER);
    let place = Place {
        kubelet: root.path(&args.kubelet.path),
        plugin: root.path(&plugin),
        dir: root.path(&args.dir),
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
        let orphans = self.orphans(&live)?.into_iter();
        let orphans = orphans.map(|spec| Orphan::of(&spec)).collect();
        Ok(self.report(&live, orphans))
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
        let found = self.orphans(&live)?;
        if found.is_empty() {
            return Ok(self.report(&live, vec![]));
        }
        let dir = OsDir::open(&self.dir).map_err(|source| GcError::Specs { source })?;
        let specs = ClaimSpecs::new(Arc::new(dir), Kind::compute_domain_claim());
        let mut orphans = Vec::new();
        for spec in found {
            let done = specs.remove(&spec.uid);
            orphans.push(Orphan {
                removed: done.is_ok(),
                error: done.err().map(|error| with_sources(&error)),
                ..Orphan::of(&spec)
            });
        }
        Ok(self.report(&live, orphans))
    }

    fn orphans(&self, live: &Live) -> Result<Vec<SpecOfClaim>, GcError> {
        let mut specs = claims::of_dir(&self.dir).map_err(|source| GcError::List {
            path: self.dir.clone(),
            source,
        })?;
        specs.retain(|spec| !live.has(&spec.uid));
        Ok(specs)
    }

    fn report(&self, live: &Live, orphans: Vec<Orphan>) -> Report {
        Report {
            schema: SCHEMA,
            dir: self.dir.display().to_string(),
            live: live.count(),
            orphans,
        }
    }
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
    /// An orphan that is left is a finding; one that could not be removed, a
    /// failure.
    fn outcome(&self) -> Result<Outcome, Failure> {
        let failed = self.orphans.iter().filter(|it| it.error.is_some()).count();
        if failed > 0 {
            return Err(GcError::Left { count: failed }.into());
        }
        Ok(if self.orphans.iter().all(|orphan| orphan.removed) {
            Outcome::Clean
        } else {
            Outcome::Findings
        })
    }
}
