//! One outdated daemon.

use std::time::{Duration, Instant};

use crate::clique_members::schedule::Backoff;

/// The first pause for a node that was unmarked or has claims. The pause doubles each time.
const FIRST_PAUSE: Duration = Duration::from_secs(60);

/// The longest pause.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(30 * 60);

#[derive(Debug)]
pub(super) struct Outdated {
    pub(super) since: Instant,
    pub(super) stage: Stage,
    /// Whether an event has reported that it waits.
    pub(super) is_reported: bool,
    /// The pauses after it was unmarked.
    pub(super) withdrawals: Backoff,
    /// The pauses after claims were found. After each, claims are listed again.
    pub(super) found: Backoff,
    /// The next list of claims has to begin after this; `None`: after the controller first saw the template.
    pub(super) read_since: Option<Instant>,
}

#[derive(Debug)]
pub(super) enum Stage {
    /// Its node is not marked. It has these claims, as `NAMESPACE/NAME`, if they were listed.
    Waiting { claims: Option<Vec<String>> },
    /// Its node is marked.
    Draining {
        /// When it was marked, or first seen marked.
        since: Instant,
        /// When it was first known to have no prepared claim.
        drained: Option<Instant>,
        /// The claims that were listed after that.
        claims: Option<Vec<String>>,
    },
    /// Its deletion was requested.
    Deleted,
}

// === impl Outdated ===

impl Outdated {
    pub(super) fn new(since: Instant) -> Self {
        Self {
            since,
            stage: Stage::WAITING,
            is_reported: false,
            withdrawals: Backoff::default(),
            found: Backoff::default(),
            read_since: None,
        }
    }

    /// Its node is unmarked.
    pub(super) fn withdraw(&mut self, now: Instant) {
        self.stage = Stage::WAITING;
        self.withdrawals.grow(FIRST_PAUSE, LONGEST_PAUSE, now);
        self.read_since = self.withdrawals.until;
    }

    /// These claims are allocated to its node.
    pub(super) fn set_claims(&mut self, read: Vec<String>, now: Instant) {
        if !read.is_empty() {
            self.found.grow(FIRST_PAUSE, LONGEST_PAUSE, now);
            self.read_since = self.found.until;
        }
        match &mut self.stage {
            Stage::Waiting { claims } | Stage::Draining { claims, .. } => *claims = Some(read),
            Stage::Deleted => {}
        }
    }

    /// The claims of its node have changed since they were listed.
    pub(super) fn forget_claims(&mut self, now: Instant) {
        self.read_since = Some(now);
        if let Stage::Waiting { claims } = &mut self.stage {
            *claims = None;
        }
    }

    /// The claims of a node that is not marked, if they are still valid. An empty list stays valid until the node
    /// gets a claim, because the plugin checks again before the pod is deleted.
    pub(super) fn known_claims(&mut self, now: Instant) -> Option<&Vec<String>> {
        // Another client has unmarked the node.
        if let Stage::Draining { .. } = self.stage {
            self.stage = Stage::WAITING;
        }
        let Stage::Waiting { claims } = &self.stage else {
            return None;
        };
        let is_true =
            |claims: &&Vec<String>| claims.is_empty() || self.found.pauses_until(now).is_some();
        claims.as_ref().filter(is_true)
    }
}

// === impl Stage ===

impl Stage {
    pub(super) const WAITING: Self = Self::Waiting { claims: None };

    pub(super) fn draining(since: Instant) -> Self {
        Self::Draining {
            since,
            drained: None,
            claims: None,
        }
    }
}
