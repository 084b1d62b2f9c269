//! Reports for administrators: log lines and events about this pod.

use daemon_runtime::Events;
use k8s_openapi::api::core::v1::ObjectReference;
use tracing::{info, warn};

use crate::args::PodArgs;
use crate::certificates::Finding;
use crate::core::facts::{DRIVER_TOO_OLD, Report, StartReason};

/// Writes log lines and events.
pub(crate) struct Reports {
    events: Events,
    pod: ObjectReference,
}

// === impl Reports ===

impl Reports {
    pub(crate) fn new(events: Events, pod: &PodArgs) -> Self {
        let pod = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(pod.pod_namespace.clone()),
            name: Some(pod.pod_name.clone()),
            uid: Some(pod.pod_uid.clone()),
            ..ObjectReference::default()
        };
        Self { events, pod }
    }

    // req: DAEMON-5, DAEMON-6
    pub(crate) fn send(&self, report: &Report) {
        match report {
            Report::Ended(exit) => {
                let reason = match exit.class {
                    "in-use" => "ImexSessionInUse",
                    "not-started" | DRIVER_TOO_OLD => "ImexNotStarted",
                    _ => "ImexEnded",
                };
                let note = exit.sentence();
                warn!(how = exit.class, "{note}");
                self.events.warning(&self.pod, reason, "Supervise", &note);
            }
            Report::Unresponsive(elapsed) => {
                let note = format!(
                    "nvidia-imex has not responded for {} s; the daemon does not restart it, because a restart would kill programs that import memory; delete this pod when this node has no workload",
                    elapsed.as_secs()
                );
                warn!("{note}");
                self.events
                    .warning(&self.pod, "ImexHangs", "Supervise", &note);
            }
            Report::Restarted(reason) => {
                let note = format!("restarting nvidia-imex: {}", restart_cause(*reason));
                info!(reason = reason.label(), "{note}");
                self.events
                    .normal(&self.pod, "ImexRestarted", "Supervise", &note);
            }
        }
    }
}

impl Reports {
    /// Reports a problem with the certificates.
    // req: MODE-41
    pub(crate) fn certificates(&self, finding: &Finding) {
        let (reason, note) = match finding {
            Finding::Refused(why) => (
                "ImexCertificatesRefused",
                format!(
                    "{why}; a running nvidia-imex keeps its certificates, but cannot start again without valid ones"
                ),
            ),
            Finding::EndsSoon => (
                "ImexCertificatesEnd",
                "the certificates of the IMEX daemons expire within a week, and then the daemons can no longer connect to each other; renew the Secret that imex.tlsSecret names"
                    .to_owned(),
            ),
        };
        warn!(reason, "{note}");
        self.events.warning(&self.pod, reason, "Certify", &note);
    }
}

fn restart_cause(reason: StartReason) -> &'static str {
    match reason {
        StartReason::Clique => "this node has left its clique",
        StartReason::Index => "this node has a new index in its clique",
        StartReason::List => "the node list of the clique has changed",
        StartReason::First | StartReason::Exited => "it had exited",
    }
}
