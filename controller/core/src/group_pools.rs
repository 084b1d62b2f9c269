//! The pools of group channels, one for each NVLink clique with a node. A group claim is allocated one channel of a
//! pool for all pods of the group.
//!
//! A pool consists of one or two `ResourceSlices` with fixed names, so a repeated create makes no second one. All
//! slices of a pool have the same generation, and the scheduler ignores a pool without all slices of the newest
//! generation. So an incompletely written pool is not used until the leader, possibly a new one, has completed it.
//!
//! An unwanted pool is deleted after ten minutes, and only when no claim is allocated from it. That keeps the
//! allocations of running pods explicable. A claim would survive its pool, because neither kubelet nor the node plugin
//! reads the slice.

mod pool;
mod slice;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use compute_domain_api::names::clique_of_pool;
use k8s_openapi::api::resource::v1::ResourceSlice;

use crate::cliques::Clique;

use self::pool::{Observed, Pool};
use self::slice::{Place, mk_slice, slice_count};

/// How long an unwanted pool is kept: a starting kubelet deletes its node's slice for a moment, and a plugin may be
/// updated.
const KEPT_FOR: Duration = Duration::from_secs(10 * 60);

/// The delay before the check is repeated whether a ComputeDomain has a group channel.
const REFUSED_FOR: Duration = Duration::from_secs(60);

/// The delay before a failed request is retried.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// The pools, from the watch of slices and from responses.
#[derive(Debug)]
pub struct GroupPools {
    /// The channels of each pool. Empty: no pool is wanted.
    channels: RangeInclusive<u32>,
    creation: Creation,
    pools: BTreeMap<Clique, Pool>,
    /// The pools to check, by time.
    due: BTreeSet<(Instant, Clique)>,
    /// The names of the slices in the current list.
    listing: Option<HashSet<Box<str>>>,
}

/// Whether pools may be created: only if no ComputeDomain has one of their channels.
#[derive(Clone, Copy, Debug)]
enum Creation {
    Unknown,
    Allowed,
    /// Not allowed. Unknown again from this time on.
    RefusedUntil(Instant),
}

/// The next step for a pool.
#[derive(Clone, Debug, PartialEq)]
pub enum PoolStep {
    /// Find out whether a ComputeDomain has a group channel. Answered by [`GroupPools::set_may_create`].
    FindDomains,
    /// Find out from which pools claims are allocated. Answered by [`GroupPools::set_in_use`].
    FindClaims,
    /// Create this slice.
    Create(ResourceSlice),
    /// Replace the slice of this name, if it still has this version.
    Replace(ResourceSlice),
    /// Delete this slice.
    Delete {
        /// Its name.
        name: Box<str>,
        /// Its UID.
        uid: Box<str>,
    },
}

// === impl GroupPools ===

impl GroupPools {
    /// Knows no slice yet. Each pool gets these channels.
    pub fn new(channels: RangeInclusive<u32>) -> Self {
        Self {
            channels,
            creation: Creation::Unknown,
            pools: BTreeMap::new(),
            due: BTreeSet::new(),
            listing: None,
        }
    }

    /// Whether pools are wanted at all.
    pub fn are_wanted(&self) -> bool {
        !self.channels.is_empty()
    }

    /// The number of existing pools.
    pub fn count(&self) -> usize {
        let exist = |pool: &&Pool| !pool.slices.is_empty();
        self.pools.values().filter(exist).count()
    }

    /// The watch begins to list all slices.
    pub fn begin(&mut self) {
        self.listing = Some(HashSet::new());
    }

    /// The watch has listed all slices.
    pub fn finish(&mut self, now: Instant) {
        let Some(listed) = self.listing.take() else {
            return;
        };
        for (clique, pool) in &mut self.pools {
            let before = pool.slices.len();
            pool.slices
                .retain(|_, observed| listed.contains(&observed.name));
            if pool.slices.len() < before {
                self.due.insert((now, clique.clone()));
            }
        }
    }

    /// A slice from the watch or a response. Slices that are not in a clique's pool are ignored.
    pub fn apply(&mut self, slice: &ResourceSlice, now: Instant) {
        let Some((clique, place)) = Place::of(slice) else {
            return;
        };
        let observed = Observed::new(slice, self.is_right(slice, &clique, place));
        if let Some(listed) = &mut self.listing {
            listed.insert(observed.name.clone());
        }
        let pool = self.pools.entry(clique.clone()).or_default();
        let known = pool.slices.get(&place.index);
        if known.is_some_and(|known| known.is_newer_than(&observed)) {
            return;
        }
        pool.slices.insert(place.index, observed);
        self.due.insert((now, clique));
    }

    /// The slice is deleted.
    pub fn remove(&mut self, slice: &ResourceSlice, now: Instant) {
        let Some((clique, _)) = Place::of(slice) else {
            return;
        };
        let uid = slice.metadata.uid.as_deref();
        self.deleted(&clique, uid.unwrap_or_default(), now);
    }

    /// The slice with this UID is deleted.
    pub fn deleted(&mut self, clique: &Clique, uid: &str, now: Instant) {
        if let Some(pool) = self.pools.get_mut(clique) {
            pool.slices.retain(|_, observed| &*observed.uid != uid);
        }
        self.due.insert((now, clique.clone()));
    }

    /// Sets whether the clique has a node.
    pub fn set_wanted(&mut self, clique: &Clique, wanted: bool, now: Instant) {
        let wanted = wanted && self.are_wanted();
        if !wanted && !self.pools.contains_key(clique) {
            return;
        }
        let pool = self.pools.entry(clique.clone()).or_default();
        if pool.wanted != wanted {
            pool.wanted = wanted;
            self.due.insert((now, clique.clone()));
        }
    }

    /// The time of the next step; `None` until a slice changes.
    pub fn due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The next step, and the clique of its pool.
    pub fn next(&mut self, now: Instant) -> Option<(Clique, PoolStep)> {
        while self.due()? <= now {
            let (_, clique) = self.due.pop_first()?;
            let step = match self.pools.get(&clique) {
                Some(pool) if pool.wanted => self.step_of_wanted(&clique, now),
                Some(_) => self.step_of_unwanted(&clique, now),
                None => None,
            };
            if let Some(step) = step {
                return Some((clique, step));
            }
        }
        None
    }

    /// The request of the pool's step has failed. It is retried.
    pub fn failed(&mut self, clique: &Clique, now: Instant) {
        self.due.insert((now + RETRY_AFTER, clique.clone()));
    }

    /// The response to [`PoolStep::FindDomains`]: whether pools may be created. A yes is permanent, because domains get
    /// other channels from then on. A no is checked again after a minute.
    pub fn set_may_create(&mut self, may: bool, clique: &Clique, now: Instant) {
        self.creation = if may {
            Creation::Allowed
        } else {
            Creation::RefusedUntil(now + REFUSED_FOR)
        };
        self.due.insert((now, clique.clone()));
    }

    /// The response to [`PoolStep::FindClaims`]: the cliques from whose pools claims are allocated. Of the pools due for
    /// deletion, the others are deleted now. Returns the ones that are kept for another ten minutes.
    pub fn set_in_use(&mut self, in_use: &HashSet<Box<str>>, now: Instant) -> Vec<Clique> {
        let mut kept = Vec::new();
        for (clique, pool) in &mut self.pools {
            if pool.delete_at.is_none_or(|at| at > now) {
                continue;
            }
            if in_use.contains(&**clique) {
                pool.delete_at = Some(now + KEPT_FOR);
                self.due.insert((now + KEPT_FOR, clique.clone()));
                kept.push(clique.clone());
            } else {
                pool.is_free = true;
                self.due.insert((now, clique.clone()));
            }
        }
        kept
    }

    fn step_of_wanted(&mut self, clique: &Clique, now: Instant) -> Option<PoolStep> {
        let channels = self.channels.clone();
        let pool = self.pools.get_mut(clique)?;
        (pool.delete_at, pool.is_free) = (None, false);
        if pool.slices.is_empty() {
            match self.creation {
                Creation::Allowed => {}
                Creation::RefusedUntil(at) if now < at => {
                    self.due.insert((at, clique.clone()));
                    return None;
                }
                Creation::Unknown | Creation::RefusedUntil(_) => {
                    return Some(PoolStep::FindDomains);
                }
            }
        }
        let count = slice_count(&channels);
        let generation = pool.generation(count);
        for index in 0..count {
            let mut slice = mk_slice(clique, &channels, Place { index }, generation);
            match pool.slices.get(&index) {
                None => return Some(PoolStep::Create(slice)),
                Some(found) if found.is_right && found.generation == generation => {}
                Some(found) => {
                    slice.metadata.uid = Some(found.uid.to_string());
                    slice.metadata.resource_version = Some(found.resource_version.to_string());
                    return Some(PoolStep::Replace(slice));
                }
            }
        }
        let mut surplus = pool.slices.range(count..);
        surplus.next().map(|(_, found)| deletion(found))
    }

    fn step_of_unwanted(&mut self, clique: &Clique, now: Instant) -> Option<PoolStep> {
        let pool = self.pools.get_mut(clique)?;
        let Some((_, last)) = pool.slices.last_key_value() else {
            self.pools.remove(clique);
            return None;
        };
        if pool.is_free {
            return Some(deletion(last));
        }
        let at = *pool.delete_at.get_or_insert(now + KEPT_FOR);
        if at <= now {
            return Some(PoolStep::FindClaims);
        }
        self.due.insert((at, clique.clone()));
        None
    }

    fn is_right(&self, slice: &ResourceSlice, clique: &str, place: Place) -> bool {
        let generation = slice.spec.pool.generation;
        let wanted = mk_slice(clique, &self.channels, place, generation);
        wanted.spec == slice.spec
    }
}

fn deletion(slice: &Observed) -> PoolStep {
    PoolStep::Delete {
        name: slice.name.clone(),
        uid: slice.uid.clone(),
    }
}

/// The cliques of the pools with these names.
pub fn cliques_of_pools<'a>(pools: impl Iterator<Item = &'a str>) -> HashSet<Box<str>> {
    pools.filter_map(clique_of_pool).map(Box::from).collect()
}

#[cfg(test)]
mod tests;
