//! What happens once per process before the first claim: which boot the records
//! are of, who holds what after damage, and records against files.

use std::collections::BTreeSet;
use std::sync::Arc;

use dra_checkpoint::{
    Boot, BootId, ClaimName, ClaimStatus, Claims, CommitError, Damage, Store, StoreError,
};
use durable_file::Dir;
use imex_cdi::{ClaimSpecs, ClaimSpecsError, ClaimUid, Kind, Major};

use crate::node::{Node, reassert};
use crate::payload::Group;
use crate::request::ChannelRequest;
use crate::world::with_sources;

/// What start found and did, for log and event.
#[derive(Debug)]
pub struct Started {
    /// Whether the checkpoint was damaged. Until [`Node::rebuild`] it is not
    /// known who holds what, and nothing is prepared.
    pub damage: Damage,
    /// How many records of an earlier boot were undone and forgotten.
    pub forgotten: usize,
    /// CDI files without a record that were removed.
    pub removed_files: Vec<String>,
    /// What could not be put right yet; a later call on the claim tries again.
    pub left: Vec<String>,
}

/// A claim that the API server says is allocated on this node.
#[derive(Debug, Clone)]
pub struct LiveClaim {
    /// Its names.
    pub claim: ClaimName,
    /// Its status.
    pub status: ClaimStatus,
}

/// Why the node's state cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The checkpoint cannot be opened.
    #[error("the checkpoint cannot be opened")]
    Open(#[source] StoreError),
    /// The checkpoint cannot be read or written.
    #[error("the checkpoint cannot be used: {reason}")]
    Checkpoint {
        /// Why.
        reason: String,
    },
    /// The CDI directory cannot be used.
    #[error("the CDI directory cannot be used")]
    Cdi(#[source] ClaimSpecsError),
}

impl Node {
    /// Opens the checkpoint in `checkpoint` and the CDI files in `cdi`, undoes
    /// what an earlier boot left, and puts records and files in line. Needs no
    /// API server.
    ///
    /// # Errors
    /// [`StartError`]: a state of the disk; try again later.
    pub fn start(
        checkpoint: Arc<dyn Dir>,
        cdi: Arc<dyn Dir>,
        boot: BootId,
        major: Option<Major>,
    ) -> Result<(Self, Started), StartError> {
        let (store, damage) = Store::open(checkpoint, boot).map_err(StartError::Open)?;
        let specs = Arc::new(ClaimSpecs::new(cdi, Kind::compute_domain_claim()));
        let node = Self { store, specs };
        let forgotten = node.settle_boot()?;
        let mut started = Started {
            damage,
            forgotten,
            removed_files: Vec::new(),
            left: Vec::new(),
        };
        if started.damage == Damage::None {
            node.put_in_line(major, &mut started)?;
        }
        Ok((node, started))
    }

    /// Learns from files and API server who holds what, after damage: whoever
    /// has a CDI file here and a live claim of the same UID was prepared.
    ///
    /// # Errors
    /// [`StartError`]: try again; nothing is prepared before.
    pub fn rebuild(
        &self,
        live: Vec<LiveClaim>,
        major: Option<Major>,
    ) -> Result<Started, StartError> {
        let specs = Arc::clone(&self.specs);
        self.commit_start(move |claims| {
            if matches!(claims.boot(), Boot::Changed { .. }) {
                // Nothing is prepared since the reboot; whatever file is left is stale.
                specs.sweep(&BTreeSet::new()).map_err(StartError::Cdi)?;
                claims.forget_earlier_boot();
            }
            for live in live {
                restore(claims, &specs, live)?;
            }
            claims
                .assume_same_boot()
                .map_err(|error| checkpoint(&error))?;
            claims.mark_rebuilt();
            Ok(())
        })?;
        let mut started = Started {
            damage: Damage::None,
            forgotten: 0,
            removed_files: Vec::new(),
            left: Vec::new(),
        };
        self.put_in_line(major, &mut started)?;
        Ok(started)
    }

    /// Undoes the files of an earlier boot, then forgets its records. Records
    /// without boot id are kept if a file proves that they are of this boot:
    /// the CDI directory is usually empty after a reboot.
    fn settle_boot(&self) -> Result<usize, StartError> {
        let specs = Arc::clone(&self.specs);
        self.commit_start(move |claims| {
            if *claims.boot() == Boot::Same || *claims.damage() != Damage::None {
                return Ok(0);
            }
            let uids: Vec<ClaimUid> = claims
                .records_unchecked()
                .filter_map(|(uid, _)| ClaimUid::new(uid).ok())
                .collect();
            if *claims.boot() == Boot::Missing {
                for uid in &uids {
                    if specs.exists(uid).map_err(StartError::Cdi)? {
                        return claims
                            .assume_same_boot()
                            .map(|()| 0)
                            .map_err(|error| checkpoint(&error));
                    }
                }
            }
            for uid in &uids {
                specs.remove(uid).map_err(StartError::Cdi)?;
            }
            let forgotten = claims.records_unchecked().count();
            claims.forget_earlier_boot();
            Ok(forgotten)
        })
    }

    /// A Completed record without file gets it back, a file without record goes.
    fn put_in_line(&self, major: Option<Major>, started: &mut Started) -> Result<(), StartError> {
        let specs = Arc::clone(&self.specs);
        let (removed, left) = self.commit_start(move |claims| {
            let mut left = Vec::new();
            let mut live = BTreeSet::new();
            for (uid, record) in claims.records_unchecked() {
                let Ok(uid) = ClaimUid::new(uid) else {
                    continue;
                };
                if record.is_completed()
                    && let Err(error) = reassert(&specs, &uid, record, major)
                {
                    left.push(format!("claim {uid}: {}", with_sources(&error)));
                }
                live.insert(uid);
            }
            let swept = specs.sweep(&live).map_err(StartError::Cdi)?;
            left.extend(swept.failed.iter().map(|error| with_sources(error)));
            Ok((swept.removed, left))
        })?;
        started.removed_files = removed;
        started.left = left;
        Ok(())
    }

    fn commit_start<R: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Claims<Group>) -> Result<R, StartError> + Send + 'static,
    ) -> Result<R, StartError> {
        self.store.commit(change).map_err(|error| match error {
            CommitError::Refused(error) => error,
            CommitError::Store(error) => checkpoint(&error),
        })
    }
}

/// A claim with a CDI file here was prepared here.
fn restore(
    claims: &mut Claims<Group>,
    specs: &ClaimSpecs,
    live: LiveClaim,
) -> Result<(), StartError> {
    let LiveClaim { claim, status } = live;
    let (Ok(uid), Ok(request)) = (
        ClaimUid::new(claim.uid.as_str()),
        ChannelRequest::of(&status),
    ) else {
        return Ok(()); // not one that we prepare
    };
    if !specs.exists(&uid).map_err(StartError::Cdi)? {
        return Ok(());
    }
    let id = specs.id(&uid, &request.channel.device_name()).to_string();
    let group = Group::of_channel(
        request.channel.get(),
        request.device_with(vec![id]),
        request.domain.as_str(),
    );
    claims
        .restore(&claim, status, vec![group])
        .map_err(|error| checkpoint(&error))
}

fn checkpoint(error: &dyn std::error::Error) -> StartError {
    StartError::Checkpoint {
        reason: with_sources(error),
    }
}

#[cfg(test)]
#[path = "start_tests.rs"]
mod tests;
