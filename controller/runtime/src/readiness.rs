use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::{info, warn};

/// The named conditions of which a daemon's readiness is made. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    /// Why a condition is not met; `None` when it is.
    reasons: Arc<Mutex<BTreeMap<&'static str, Option<String>>>>,
}

/// One of them: whoever watches a part of the world holds its handle.
#[derive(Clone, Debug)]
pub struct Condition {
    name: &'static str,
    readiness: Readiness,
}

// === impl Readiness ===

impl Readiness {
    /// Adds a condition that is not met yet, for this reason.
    pub fn condition(&self, name: &'static str, reason: &str) -> Condition {
        self.lock().insert(name, Some(reason.to_owned()));
        Condition {
            name,
            readiness: self.clone(),
        }
    }

    /// Name and reason of every condition that is not met; empty when ready.
    pub fn unmet(&self) -> Vec<(&'static str, String)> {
        self.lock()
            .iter()
            .filter_map(|(name, reason)| Some((*name, reason.clone()?)))
            .collect()
    }

    fn set(&self, name: &'static str, reason: Option<&str>) {
        let before = self
            .lock()
            .insert(name, reason.map(str::to_owned))
            .flatten();
        match reason {
            _ if before.as_deref() == reason => {}
            None => info!(condition = name, "ready"),
            Some(reason) => warn!(condition = name, reason, "not ready"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, Option<String>>> {
        // The map is valid after every statement: a panic elsewhere does not spoil it.
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Condition ===

impl Condition {
    /// It is met. A change is logged once.
    pub fn ready(&self) {
        self.readiness.set(self.name, None);
    }

    /// It is not met, for this reason. A change, also of the reason, is logged once.
    pub fn not_ready(&self, reason: &str) {
        self.readiness.set(self.name, Some(reason));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_means_that_no_condition_is_unmet() {
        let readiness = Readiness::default();
        assert_eq!(readiness.unmet(), []);

        let api = readiness.condition("api-server", "not reached yet");
        let fabric = readiness.condition("fabric", "not probed yet");
        fabric.ready();
        assert_eq!(
            readiness.unmet(),
            [("api-server", "not reached yet".to_owned())]
        );

        api.ready();
        assert_eq!(readiness.unmet(), []);
        fabric.not_ready("GPUs disagree");
        assert_eq!(readiness.unmet(), [("fabric", "GPUs disagree".to_owned())]);
    }
}
