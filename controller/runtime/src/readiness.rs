use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use tracing::{info, warn};

/// The metric that has each condition: 1 when it is met.
const METRIC: &str = "imex_dra_condition_met";

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

impl Collector for Readiness {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Whether a condition of readiness is met; /readyz has the reason";
        let mut family = encoder.encode_descriptor(METRIC, help, None, MetricType::Gauge)?;
        for (name, reason) in &*self.lock() {
            let met = u64::from(reason.is_none());
            ConstGauge::new(met).encode(family.encode_family(&[("condition", *name)])?)?;
        }
        Ok(())
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
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn each_condition_is_a_series() {
        let readiness = Readiness::default();
        readiness.condition("api-server", "not reached yet");
        readiness.condition("fabric", "not probed yet").ready();
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
