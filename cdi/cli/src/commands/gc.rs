//! `cdi-gen gc`: finds and removes specs of claims that no longer exist.
//!
//! A spec is written after the record of its claim, and removed before it. So
//! a spec without a record, seen while the plugin's lock keeps records from
//! being added, is an orphan: only the plugin's next start would remove it, or
//! this.

mod error;
mod live;
mod report;

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dra_checkpoint::LOCK_FILE;
use durable_file::{Dir, OsDir};
use host_doctor::{ClaimSpecFile, Root, claim_specs_in};
use imex_cdi::{ClaimSpecs, Kind};

use self::error::GcError;
use self::live::Live;
use self::report::GcReport;
use crate::args::Gc;
use crate::host_specs::{HostError, is_default};
use crate::outcome::{Failure, Outcome};
use crate::output::print;
use crate::stderr::note;

/// As long as the plugin itself waits for its lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The directories of the host.
struct Dirs {
    /// kubelet's root.
    kubelet: PathBuf,
    /// The plugin's directory, in which its checkpoint is.
    plugin: PathBuf,
    /// The directories of specs, each once.
    specs: Vec<PathBuf>,
}

pub(super) fn run(args: &Gc, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    let root = Root::new(&args.root).map_err(HostError::from)?;
    let dirs = Dirs {
        kubelet: root.resolve(&args.kubelet.path),
        plugin: root.resolve(&args.kubelet.plugin_dir()),
        specs: spec_dirs(&root, &args.dirs)?,
    };
    let report = if args.remove {
        dirs.remove_orphans(&args.live)?
    } else {
        dirs.list_orphans(&args.live)?
    };
    print(&report, args.json, stdout)?;
    if !args.json {
        report.errors().for_each(note);
    }
    Ok(report.outcome()?)
}

/// Where the directories are. A default one that does not exist is as good as an
/// empty one; another one is misspelt, or on another host.
fn spec_dirs(root: &Root, named: &[PathBuf]) -> Result<Vec<PathBuf>, GcError> {
    let mut seen = BTreeSet::new();
    let mut dirs = Vec::new();
    for dir in named {
        let at = root.resolve_target(dir);
        let is_new = match at.canonicalize() {
            Ok(real) => seen.insert(real),
            Err(source) if source.kind() == io::ErrorKind::NotFound && !is_default(dir) => {
                return Err(GcError::Dir { path: at, source });
            }
            // Other errors are reported when it is listed.
            Err(_) => true,
        };
        if is_new {
            dirs.push(at);
        }
    }
    Ok(dirs)
}

// === impl Dirs ===

impl Dirs {
    fn list_orphans(&self, named_live: &[String]) -> Result<GcReport, GcError> {
        let live = Live::read(&self.plugin, &self.kubelet, named_live)?;
        let mut report = GcReport::new(&self.specs, live.count());
        for dir in &self.specs {
            for spec in orphans(dir, &live)? {
                report.add(&spec);
            }
        }
        Ok(report)
    }

    /// Holds the plugin's lock from before the checkpoint is read until the last
    /// spec is removed.
    fn remove_orphans(&self, named_live: &[String]) -> Result<GcReport, GcError> {
        let locked = OsDir::open(&self.plugin).and_then(|plugin| {
            let lock = plugin.lock(LOCK_FILE, LOCK_TIMEOUT)?;
            Ok((lock, plugin))
        });
        let (_lock, _plugin) = locked.map_err(|source| GcError::Lock { source })?;
        let live = Live::read(&self.plugin, &self.kubelet, named_live)?;
        let mut report = GcReport::new(&self.specs, live.count());
        // None is removed before all are known.
        let mut found = Vec::new();
        for dir in &self.specs {
            found.push((dir, orphans(dir, &live)?));
        }
        for (dir, orphans) in found.into_iter().filter(|(_, it)| !it.is_empty()) {
            let dir = OsDir::open(dir).map_err(|source| GcError::Specs { source })?;
            let specs = ClaimSpecs::new(Arc::new(dir), Kind::compute_domain_claim());
            for spec in orphans {
                report.add_removal(&spec, specs.remove(&spec.uid));
            }
        }
        Ok(report)
    }
}

fn orphans(dir: &Path, live: &Live) -> Result<Vec<ClaimSpecFile>, GcError> {
    let mut specs = claim_specs_in(dir).map_err(|source| GcError::List {
        path: dir.to_owned(),
        source,
    })?;
    specs.retain(|spec| !live.has(&spec.uid));
    Ok(specs)
}
