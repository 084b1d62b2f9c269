//! Reports of the guard: pod events, metrics, and whether it is connected.

use std::sync::Arc;

use daemon_runtime::{Events, ReadinessCondition};
use dra_common::error_chain;
use imex_cdi::RequestedChannels;
use k8s_openapi::api::core::v1::ObjectReference;
use nri_plugin::State;
use nri_plugin::api::{Container, PodSandbox};
use tokio::sync::watch;
use tracing::warn;

use super::finding::{ContainerOutcome, Finding, Moment};
use crate::node_metrics::NodeMetrics;

/// Reports findings. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Reports {
    pub(crate) events: Events,
    pub(crate) metrics: NodeMetrics,
    /// Namespace of the plugin's own pods, which are privileged.
    pub(crate) own_namespace: Arc<str>,
}

/// Reports whether the guard is connected.
pub(crate) struct Connection {
    pub(crate) metrics: NodeMetrics,
    /// Only in the mode `enforce`, in which a node without its guard is not ready.
    pub(crate) ready: Option<ReadinessCondition>,
}

// === impl Reports ===

impl Reports {
    pub(super) fn exempt(&self, moment: Moment) {
        self.metrics.guarded(moment.as_str(), "exempt");
    }

    pub(super) fn finding(
        &self,
        moment: Moment,
        pod: &PodSandbox,
        container: &Container,
        requested_devices: &RequestedChannels,
        finding: &Finding,
        end: ContainerOutcome,
    ) {
        let refuses = end == ContainerOutcome::Refused;
        let done = match end {
            ContainerOutcome::Runs => "the container was already running and keeps running",
            ContainerOutcome::Refused => "the container is refused",
            ContainerOutcome::LetThrough => "the container is allowed (nriGuard.mode: warn)",
            ContainerOutcome::StartsAnyway => {
                "imex-dra refused the container, but CRI-O starts it anyway, because another NRI plugin added the request for the channel; configure that plugin not to add the request, or also install cdi-gen's OCI hook"
            }
        };
        let send = |reason: &str, text: &str| {
            let note = format!("container {}: {text}; {done}", container.name);
            warn!(pod = %format_args!("{}/{}", pod.namespace, pod.name), moment = moment.as_str(), reason, "{note}");
            self.events
                .warning(&reference(pod), reason, moment.action(), &note);
        };
        let outcome = match finding {
            // Only at Create: at each start of the plugin, most nodes have such containers running.
            Finding::Explained if requested_devices.every_device => {
                if moment == Moment::Create && *pod.namespace != *self.own_namespace {
                    let note = format!(
                        "container {} is privileged and can open any IMEX channel, through an existing device node or by creating one",
                        container.name
                    );
                    let pod = reference(pod);
                    self.events
                        .normal(&pod, "EveryChannel", moment.action(), &note);
                }
                "every-device"
            }
            Finding::Explained => "explained",
            Finding::Unexplained(sentence) => {
                send("ChannelWithoutClaim", sentence);
                if refuses { "refused" } else { "told" }
            }
            Finding::Unknown(reason) => {
                let text = format!(
                    "cannot check whether its pod has a claim for the requested IMEX channel: {reason}"
                );
                send("ChannelNotChecked", &text);
                if refuses {
                    "unknown-refused"
                } else {
                    "unknown"
                }
            }
        };
        self.metrics.guarded(moment.as_str(), outcome);
    }
}

// === impl Connection ===

impl Connection {
    /// Follows the registration until the plugin ends.
    pub(crate) async fn follow(self, mut state: watch::Receiver<State>) {
        loop {
            let now = state.borrow_and_update().clone();
            self.metrics.nri_connected(now.is_registered());
            if let Some(ready) = &self.ready {
                match now {
                    State::Registered(_) => ready.set_met(),
                    State::Connecting(Some(error)) | State::Ended(Some(error)) => {
                        ready.set_unmet(&format!("{} ({})", error_chain(&*error), error.hint()));
                    }
                    _ => ready.set_unmet("not registered with the container runtime yet"),
                }
            }
            if state.changed().await.is_err() {
                return;
            }
        }
    }
}

fn reference(pod: &PodSandbox) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: Some(pod.name.clone()),
        namespace: Some(pod.namespace.clone()),
        uid: Some(pod.uid.clone()),
        ..ObjectReference::default()
    }
}
