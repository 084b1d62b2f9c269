//! The readiness of a program, with the reasons why it is not ready.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tracing::{info, warn};

/// The gauge of each condition: 1 if met, otherwise 0.
const METRIC: &str = "imex_dra_condition_met";

/// All conditions that must be met for a program to be ready. Cheap to clone; clones share the
/// conditions. A program without conditions is ready.
///
/// [`HttpServer::serve`](crate::HttpServer::serve) serves them as `/readyz` and as the gauge
/// `imex_dra_condition_met{condition}`, 1 or 0. If conditions are added later, the program is not ready
/// until they are met. Add at least one before the server starts, so that the program does not become
/// ready too early.
///
/// A line is logged when a condition becomes met or unmet, when the reason of an unmet one changes, and
/// when an unmet one is removed. A new condition is not logged, since every program starts with some.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    conditions: Arc<Mutex<Conditions>>,
}

/// The gauges of all conditions, computed at each scrape.
#[derive(Debug)]
struct Gauges(Readiness);

#[derive(Debug, Default)]
struct Conditions {
    by_name: BTreeMap<&'static str, Entry>,
    /// The number of conditions ever added.
    added: u64,
}

#[derive(Debug)]
struct Entry {
    /// Distinguishes the condition from an earlier one with the same name.
    id: u64,
    /// Why the condition is not met; `None` if it is met.
    unmet_reason: Option<String>,
    /// Readiness depends on the condition only until it has been met once.
    is_start_only: bool,
    was_met: bool,
}

/// The handle of one readiness condition, such as "the API server responds". The task that observes it
/// may set it at each observation: only changes are logged.
///
/// The handle of a removed or replaced condition has no effect, so a task that ends late does not bring
/// the condition back.
#[derive(Clone, Debug)]
pub struct ReadinessCondition {
    name: &'static str,
    id: u64,
    readiness: Readiness,
}

// === impl Readiness ===

impl Readiness {
    /// Adds a condition that is not met yet, for this reason. Its name appears in `/readyz`, the metric and
    /// logs. An existing condition with the same name is replaced: its handle loses its effect, and a line is
    /// logged if it was met or had another reason.
    pub fn add_condition(&self, name: &'static str, reason: &str) -> ReadinessCondition {
        self.add(name, reason, false)
    }

    /// Like [`add_condition`](Self::add_condition), but readiness depends on the condition only until it is
    /// met for the first time. Later changes are still logged and in the metric. For shared dependencies that
    /// no replica can repair: an outage of the API server must not make every pod of a cluster unready.
    pub fn add_start_condition(&self, name: &'static str, reason: &str) -> ReadinessCondition {
        self.add(name, reason, true)
    }

    fn add(&self, name: &'static str, reason: &str, is_start_only: bool) -> ReadinessCondition {
        let (id, replaced) = self.lock().add(name, reason, is_start_only);
        if replaced.is_some_and(|entry| entry.unmet_reason.as_deref() != Some(reason)) {
            log(name, Some(reason), true);
        }
        ReadinessCondition {
            name,
            id,
            readiness: self.clone(),
        }
    }

    /// Removes the condition with this name, if there is one, and its metric. Logs it if it was not met. For
    /// work that a program has stopped, such as the watches of a replica that has lost its lease.
    pub fn remove_condition(&self, name: &str) {
        let removed = self.lock().by_name.remove(name);
        if let Some(reason) = removed.and_then(|entry| entry.unmet_reason) {
            info!(
                condition = name,
                reason, "condition removed; readiness no longer depends on it"
            );
        }
    }

    /// Returns name and reason of every unmet condition that readiness depends on; empty if the program
    /// is ready.
    pub fn unmet(&self) -> Vec<(&'static str, String)> {
        self.lock()
            .by_name
            .iter()
            .filter(|(_, entry)| entry.is_required())
            .filter_map(|(name, entry)| Some((*name, entry.unmet_reason.clone()?)))
            .collect()
    }

    /// Registers the gauge of each condition. Call it once per registry.
    pub(crate) fn register_metrics(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(Gauges(self.clone())));
    }

    fn set(&self, condition: &ReadinessCondition, reason: Option<&str>) {
        // Releases the lock before logging.
        let changed = self.lock().set(condition, reason);
        if let Some(was_required) = changed {
            log(condition.name, reason, was_required);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Conditions> {
        // A panic elsewhere cannot leave the map half-changed.
        self.conditions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

fn log(condition: &str, unmet_reason: Option<&str>, is_required: bool) {
    match unmet_reason {
        None => info!(condition, "ready"),
        Some(reason) if is_required => warn!(condition, reason, "not ready"),
        Some(reason) => warn!(
            condition,
            reason,
            "condition is no longer met; readiness depends on this condition only until it is first met"
        ),
    }
}

impl Entry {
    fn is_required(&self) -> bool {
        !(self.is_start_only && self.was_met)
    }
}

impl Conditions {
    /// Returns the ID of the new condition, and the condition that it replaced.
    fn add(
        &mut self,
        name: &'static str,
        reason: &str,
        is_start_only: bool,
    ) -> (u64, Option<Entry>) {
        self.added += 1;
        let id = self.added;
        let entry = Entry {
            id,
            unmet_reason: Some(reason.to_owned()),
            is_start_only,
            was_met: false,
        };
        (id, self.by_name.insert(name, entry))
    }

    /// Sets the condition. If it changed, returns whether readiness depends on it.
    fn set(&mut self, condition: &ReadinessCondition, reason: Option<&str>) -> Option<bool> {
        match self.by_name.get_mut(condition.name) {
            Some(entry) if entry.id == condition.id && entry.unmet_reason.as_deref() != reason => {
                entry.unmet_reason = reason.map(str::to_owned);
                entry.was_met |= reason.is_none();
                Some(entry.is_required())
            }
            _ => None,
        }
    }
}

impl Collector for Gauges {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Whether a readiness condition is met; /readyz has the reason";
        let mut family = encoder.encode_descriptor(METRIC, help, None, MetricType::Gauge)?;
        for (name, entry) in &self.0.lock().by_name {
            let met = u64::from(entry.unmet_reason.is_none());
            ConstGauge::new(met).encode(family.encode_family(&[("condition", *name)])?)?;
        }
        Ok(())
    }
}

// === impl ReadinessCondition ===

impl ReadinessCondition {
    /// Marks the condition as met. Logs it if it was not.
    pub fn set_met(&self) {
        self.readiness.set(self, None);
    }

    /// Whether the condition is currently met. False if it was removed or replaced.
    pub fn is_met(&self) -> bool {
        let conditions = self.readiness.lock();
        let own = conditions.by_name.get(self.name);
        own.is_some_and(|entry| entry.id == self.id && entry.unmet_reason.is_none())
    }

    /// Marks the condition as not met, for this reason. Logs it if it was met or had another reason.
    pub fn set_unmet(&self, reason: &str) {
        self.readiness.set(self, Some(reason));
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn each_condition_has_a_gauge() {
        let readiness = Readiness::default();
        readiness.add_condition("api-server", "not reached yet");
        readiness
            .add_condition("fabric", "not probed yet")
            .set_met();
        let mut registry = Registry::default();
        readiness.register_metrics(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        assert!(
            text.contains("imex_dra_condition_met{condition=\"api-server\"} 0\n"),
            "{text}"
        );
        assert!(
            text.contains("imex_dra_condition_met{condition=\"fabric\"} 1\n"),
            "{text}"
        );
    }

    #[test]
    fn ready_means_that_every_condition_is_met() {
        let readiness = Readiness::default();
        assert_eq!(readiness.unmet(), []);

        let api = readiness.add_condition("api-server", "not reached yet");
        let fabric = readiness.add_condition("fabric", "not probed yet");
        fabric.set_met();
        assert_eq!(
            readiness.unmet(),
            [("api-server", "not reached yet".to_owned())]
        );

        api.set_met();
        assert_eq!(readiness.unmet(), []);
        fabric.set_unmet("GPUs disagree");
        assert_eq!(readiness.unmet(), [("fabric", "GPUs disagree".to_owned())]);
    }

    #[test]
    fn a_start_condition_counts_until_it_was_met_and_keeps_its_gauge() {
        let readiness = Readiness::default();
        let api = readiness.add_start_condition("api-server", "not reached yet");
        api.set_unmet("connection refused");
        assert_eq!(
            readiness.unmet(),
            [("api-server", "connection refused".to_owned())]
        );
        api.set_met();
        assert!(api.is_met());
        api.set_unmet("connection refused");
        assert_eq!(readiness.unmet(), []);
        assert!(!api.is_met());
        let mut registry = Registry::default();
        readiness.register_metrics(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        assert!(
            text.contains("imex_dra_condition_met{condition=\"api-server\"} 0\n"),
            "{text}"
        );
    }

    #[test]
    fn a_removed_condition_does_not_come_back_until_it_is_added_again() {
        let readiness = Readiness::default();
        let first = readiness.add_condition("templates", "not watched yet");
        readiness.remove_condition("templates");
        readiness.remove_condition("templates");
        first.set_unmet("the watch failed");
        assert_eq!(readiness.unmet(), []);

        let second = readiness.add_condition("templates", "not watched again yet");
        first.set_met();
        assert_eq!(
            readiness.unmet(),
            [("templates", "not watched again yet".to_owned())]
        );
        second.set_met();
        assert_eq!(readiness.unmet(), []);
    }
}
