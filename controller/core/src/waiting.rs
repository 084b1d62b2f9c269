//! Claims that wait to be allocated while nodes without a clique are kept from them by a taint. The
//! scheduler says of such a pod only that it cannot allocate all claims, so the ComputeDomain says how
//! many nodes have no clique: once, as a condition, for as long as a claim of it waits.

use compute_domain_api::names::NO_CLIQUE_TAINT;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::domain::Domain;
use crate::reported::{NODES_WITHOUT_CLIQUE, time};

/// The condition's reason.
const REASON: &str = "ClaimWaits";

/// What is known of the claims of a ComputeDomain that are not allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waiting {
    /// Not known yet: what the status says stays.
    #[default]
    Unknown,
    /// None waits, or nobody wants to know.
    Nothing,
    /// One waits, not for long: what the status says stays.
    Briefly,
    /// One has waited long.
    Long,
    /// One has waited long, and this is how the nodes were then.
    Counted(NodeCount),
}

/// How many nodes publish devices of our driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCount {
    /// Those whose devices have the taint of nodes without a clique.
    pub without_clique: usize,
    /// All of them.
    pub all: usize,
}

/// The condition `NodesWithoutClique` of a ComputeDomain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    message: Box<str>,
    /// `None`: from now on.
    since: Option<Timestamp>,
}

// === impl Waiting ===

impl Waiting {
    /// Whether the nodes have to be counted: once, not again when one of them changes.
    pub(crate) fn needs_count(self, domain: &Domain) -> bool {
        self == Self::Long && !domain.reports_nodes_without_clique()
    }

    /// The condition that an admitted domain should have: as it was written first, until no claim
    /// waits any more.
    pub fn notice(self, domain: &Domain) -> Option<Notice> {
        if self == Self::Nothing {
            return None;
        }
        let reported = domain.reported.as_ref();
        if let Some(reported) = reported.and_then(|it| it.nodes_without_clique.as_ref()) {
            return Some(Notice {
                message: reported.message.clone(),
                since: Some(reported.since),
            });
        }
        match self {
            Self::Counted(count) if count.without_clique > 0 => Some(Notice {
                message: count.message().into(),
                since: None,
            }),
            _ => None,
        }
    }
}

// === impl NodeCount ===

impl NodeCount {
    /// One line for a person.
    pub fn message(self) -> String {
        let Self {
            without_clique,
            all,
        } = self;
        format!(
            "a ResourceClaim waits to be allocated; nodes without an NVLink clique: {without_clique} of {all} that publish IMEX channels; no pod of this ComputeDomain is placed on these (taint {NO_CLIQUE_TAINT})"
        )
    }
}

// === impl Notice ===

impl Notice {
    pub(crate) fn condition(&self, domain: &Domain, now: Timestamp) -> Value {
        json!({
            "type": NODES_WITHOUT_CLIQUE,
            "status": "True",
            "reason": REASON,
            "message": self.message,
            "observedGeneration": domain.generation,
            "lastTransitionTime": time(self.since.unwrap_or(now)),
        })
    }
}

#[cfg(test)]
mod tests;
