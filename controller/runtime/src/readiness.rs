//! Whether a program is ready, and why not.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use tracing::{info, warn};

/// The gauge of each condition: 1 if it is met, else 0.
const METRIC: &str = "imex_dra_condition_met";

/// All conditions that must be met for a program to be ready. Cheap to clone; clones share the
/// conditions. A program without conditions is ready.
///
/// [`HttpServer::serve`](crate::HttpServer::serve) shows them as `/readyz` and as metrics. Conditions
/// may be added while it serves: the program is then not ready until they are met. Add at least one
/// before the server starts, so that the program is not ready too early.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    /// Why each condition is not met; `None` if it is.
    unmet_reasons: Arc<Mutex<BTreeMap<&'static str, Option<String>>>>,
}

/// One condition of a program's readiness, such as "the API server responds". The task that observes
/// it has this handle, and may set it as often as it observes something: only changes are logged.
#[derive(Clone, Debug)]
pub struct ReadinessCondition {
    name: &'static str,
    readiness: Readiness,
}

// === impl Readiness ===

impl Readiness {
    /// Adds a condition that is not met yet, for this reason. Its name is in `/readyz`, in the metric
    /// and in logs. A condition of that name that exists already is replaced.
    pub fn add_condition(&self, name: &'static str, reason: &str) -> ReadinessCondition {
        self.lock().insert(name, Some(reason.to_owned()));
        ReadinessCondition {
            name,
            readiness: self.clone(),
        }
    }

    /// Name and reason of every condition that is not met; empty if the program is ready.
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
        // A panic elsewhere cannot leave the map half-changed.
        self.unmet_reasons
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for Readiness {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Whether a readiness condition is met; /readyz has the reason";
        let mut family = encoder.encode_descriptor(METRIC, help, None, MetricType::Gauge)?;
        for (name, reason) in &*self.lock() {
            let met = u64::from(reason.is_none());
            ConstGauge::new(met).encode(family.encode_family(&[("condition", *name)])?)?;
        }
        Ok(())
    }
}

// === impl ReadinessCondition ===

impl ReadinessCondition {
    /// Marks the condition as met. Logs it if it was not.
    pub fn set_met(&self) {
        self.readiness.set(self.name, None);
    }

    /// Marks the condition as not met, for this reason. Logs it if it was met, or had another reason.
    pub fn set_unmet(&self, reason: &str) {
        self.readiness.set(self.name, Some(reason));
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
        registry.register_collector(Box::new(readiness));
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
}
