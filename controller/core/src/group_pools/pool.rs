//! The state of one pool.

use std::collections::BTreeMap;
use std::time::Instant;

use k8s_openapi::api::resource::v1::ResourceSlice;

use crate::version::Version;

/// A pool that exists, at least in part, or is wanted.
#[derive(Debug, Default)]
pub(super) struct Pool {
    /// By place in the pool, from 0.
    pub(super) slices: BTreeMap<usize, Observed>,
    pub(super) wanted: bool,
    /// When it is deleted if it stays unwanted; `None` while it is wanted.
    pub(super) delete_at: Option<Instant>,
    /// Whether no claim was allocated from it when it was due for deletion.
    pub(super) is_free: bool,
}

/// A slice of a pool.
#[derive(Debug)]
pub(super) struct Observed {
    pub(super) name: Box<str>,
    pub(super) uid: Box<str>,
    pub(super) resource_version: Box<str>,
    pub(super) generation: i64,
    /// Whether everything except the generation is as wanted.
    pub(super) is_right: bool,
}

// === impl Pool ===

impl Pool {
    /// The generation that all slices should have: the newest, or the next one if a slice of the newest is wrong.
    pub(super) fn generation(&self, count: usize) -> i64 {
        let newest = self.slices.values().map(|found| found.generation).max();
        let newest = newest.unwrap_or(1).max(1);
        let wrong = |found: &&Observed| found.generation == newest && !found.is_right;
        match self
            .slices
            .range(..count)
            .map(|(_, found)| found)
            .find(wrong)
        {
            Some(_) => newest.saturating_add(1),
            None => newest,
        }
    }
}

// === impl Observed ===

impl Observed {
    pub(super) fn new(slice: &ResourceSlice, is_right: bool) -> Self {
        let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
        let metadata = &slice.metadata;
        Self {
            name: text(&metadata.name),
            uid: text(&metadata.uid),
            resource_version: text(&metadata.resource_version),
            generation: slice.spec.pool.generation,
            is_right,
        }
    }

    /// Whether the other copy is older: a late watch event may be older than a response.
    pub(super) fn is_newer_than(&self, other: &Self) -> bool {
        let version = |it: &Self| Version::parse(Some(&it.resource_version));
        self.uid == other.uid && version(self) > version(other)
    }
}
