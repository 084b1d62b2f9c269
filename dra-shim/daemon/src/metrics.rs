//! Metrics of the daemon.

use compute_domain_api::driver_managed::{DaemonPhase, DaemonState};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::core::facts::{Answer, DRIVER_TOO_OLD, Exit, StartReason};

type ByLabel = Family<[(&'static str, &'static str); 1], Counter>;

/// The daemon's metrics. Clones share the series.
#[derive(Debug, Clone, Default)]
pub(crate) struct Metrics {
    starts: ByLabel,
    exits: ByLabel,
    signals: Counter,
    queries: ByLabel,
    names_written: Counter,
    index: Gauge,
    members: Gauge,
    certificates_refused: Gauge,
    phase: Family<[(&'static str, &'static str); 1], Gauge>,
}

const EXITS: [&str; 5] = ["code", "signal", "in-use", "not-started", DRIVER_TOO_OLD];
const ANSWERS: [&str; 3] = ["ready", "not-ready", "silent"];
const PHASES: [(DaemonPhase, &str); 4] = [
    (DaemonPhase::Starting, "starting"),
    (DaemonPhase::Ready, "ready"),
    (DaemonPhase::Draining, "draining"),
    (DaemonPhase::DriverTooOld, "driver-too-old"),
];

// === impl Metrics ===

impl Metrics {
    /// Registers the metrics. All series exist from the beginning, so that none appears with its first count.
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let of = |family: &ByLabel, name, values: &[&'static str]| {
            for value in values {
                drop(family.get_or_create(&[(name, *value)]));
            }
        };
        of(
            &metrics.starts,
            "reason",
            &StartReason::ALL.map(StartReason::label),
        );
        of(&metrics.exits, "how", &EXITS);
        of(&metrics.queries, "answer", &ANSWERS);
        metrics.index.set(-1);
        metrics.register_counters(registry);
        metrics.register_gauges(registry);
        metrics
    }

    fn register_counters(&self, registry: &mut Registry) {
        registry.register(
            "imex_dra_imex_starts",
            "Starts of nvidia-imex, by reason",
            self.starts.clone(),
        );
        registry.register(
            "imex_dra_imex_exits",
            "Unexpected exits and failed starts of nvidia-imex, by kind",
            self.exits.clone(),
        );
        registry.register(
            "imex_dra_imex_signals",
            "SIGUSR1 signals sent to nvidia-imex",
            self.signals.clone(),
        );
        registry.register(
            "imex_dra_imex_queries",
            "Status queries with nvidia-imex-ctl, by answer",
            self.queries.clone(),
        );
        registry.register(
            "imex_dra_imex_hosts_writes",
            "Writes of the hosts file",
            self.names_written.clone(),
        );
    }

    fn register_gauges(&self, registry: &mut Registry) {
        registry.register(
            "imex_dra_imex_index",
            "Index of this node in its clique; -1 if the node has no index",
            self.index.clone(),
        );
        registry.register(
            "imex_dra_imex_members",
            "Members of the clique that have an address, including this node",
            self.members.clone(),
        );
        registry.register(
            "imex_dra_imex_phase",
            "1 for the current phase (see state.json), 0 for every other phase",
            self.phase.clone(),
        );
        registry.register(
            "imex_dra_imex_certificates_refused",
            "1 while the certificates in the Secret cannot be used, else 0",
            self.certificates_refused.clone(),
        );
    }

    pub(crate) fn certificates(&self, are_good: bool) {
        self.certificates_refused.set(i64::from(!are_good));
    }

    pub(crate) fn started(&self, reason: StartReason) {
        let label = [("reason", reason.label())];
        self.starts.get_or_create(&label).inc();
    }

    pub(crate) fn ended(&self, exit: &Exit) {
        self.exits.get_or_create(&[("how", exit.class)]).inc();
    }

    pub(crate) fn signalled(&self) {
        self.signals.inc();
    }

    pub(crate) fn answered(&self, answer: &Answer) {
        let answer = match answer {
            Answer::Ready => "ready",
            Answer::NotReady(_) => "not-ready",
            Answer::Unresponsive(_) => "silent",
        };
        self.queries.get_or_create(&[("answer", answer)]).inc();
    }

    pub(crate) fn names_written(&self) {
        self.names_written.inc();
    }

    pub(crate) fn members(&self, count: usize) {
        self.members.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(crate) fn state(&self, state: &DaemonState) {
        self.index.set(state.index);
        for (phase, label) in PHASES {
            let is_it = i64::from(phase == state.phase);
            self.phase.get_or_create(&[("phase", label)]).set(is_it);
        }
    }
}

#[cfg(test)]
mod tests {
    use daemon_runtime::metrics_table_differences;

    use super::*;

    #[tokio::test]
    async fn the_reference_page_has_every_metric() {
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry);
        metrics.state(&DaemonState {
            boot_id: String::new(),
            pod_uid: String::new(),
            clique: String::new(),
            index: -1,
            place: None,
            address: String::new(),
            phase: DaemonPhase::Ready,
            reason: String::new(),
        });
        let unreachable = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            let answer = http::Response::builder().status(404);
            answer.body(kube::client::Body::empty())
        });
        let client = kube::Client::new(unreachable, "default");
        daemon_runtime::Events::new(client, "test", "pod").register_metrics(&mut registry);
        assert_eq!(
            metrics_table_differences(
                registry,
                include_str!("../../../docs/reference/daemon-metrics.md")
            ),
            Vec::<String>::new()
        );
    }
}
