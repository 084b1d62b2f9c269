//! Replaces outdated daemons: sends the requests and writes the events.

use std::sync::Arc;
use std::time::Duration;

use compute_domain_api::driver_managed::TEMPLATE_ANNOTATION;
use compute_domain_core::{Clique, MemberStep, Replacement, RolloutEvent, template};
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::Resource as _;
use kube::runtime::watcher::Event;
use tokio::time::Instant;
use tracing::{info, warn};

use super::steps::PACE;
use super::{ClaimsList, Run};
use crate::api_client::{RawMetadata, RequestError};
use crate::references::node_reference;

/// Minimum time between two lists of the cluster's claims. One list serves all nodes, of all cliques, that then wait.
const LIST_PAUSE: Duration = Duration::from_secs(2);

/// How many claims an event names.
const NAMED: usize = 5;

// === impl Run ===

impl Run<'_> {
    pub(super) fn take_daemon_set(&mut self, event: Event<RawMetadata<DaemonSet>>) {
        let now = Instant::now().into_std();
        match event {
            Event::Init => self.members.begin_templates(),
            Event::InitApply(set) | Event::Apply(set) => {
                let meta = set.meta();
                let template = template(meta.annotations.as_ref());
                let uid = meta.uid.as_deref().unwrap_or_default();
                self.members.apply_template(uid, template.as_deref(), now);
            }
            Event::InitDone => {
                self.members.finish_templates();
                self.unlisted.remove("daemon sets");
            }
            Event::Delete(set) => {
                let uid = set.meta().uid.as_deref().unwrap_or_default();
                self.members.remove_template(uid);
            }
        }
    }

    /// Claims of `ComputeDomains` were allocated to nodes, or removed from them.
    pub(super) fn take_uses(&mut self) {
        let now = Instant::now().into_std();
        for (node, in_use) in self.keeper.nodes.take_uses() {
            self.members.set_in_use(&node, in_use, now);
        }
    }

    /// Answers from the last list if it is recent enough; otherwise lists again, now or later.
    pub(super) async fn read_claims(
        &mut self,
        clique: &Clique,
        (node, pod): (&str, &str),
        since: std::time::Instant,
    ) -> Result<Duration, RequestError> {
        let answers = |list: &Arc<ClaimsList>| list.began.into_std() > since;
        let mut pause = Duration::ZERO;
        let list = match self.claims.clone() {
            Some(list) if answers(&list) => list,
            Some(list) if list.began.elapsed() < LIST_PAUSE => {
                let at = list.began + LIST_PAUSE;
                self.members.schedule_look_up(clique, at.into_std());
                return Ok(Duration::ZERO);
            }
            _ => {
                let began = Instant::now();
                let claims = self.keeper.api.claims_of_nodes().await?;
                let new = Arc::new(ClaimsList { began, claims });
                self.claims = Some(new.clone());
                pause = PACE;
                new
            }
        };
        let claims = list.claims.get(node).cloned().unwrap_or_default();
        let now = Instant::now().into_std();
        self.members.set_listed_claims(clique, pod, claims, now);
        Ok(pause)
    }

    /// Deletes the pod of a daemon and writes an event.
    pub(super) async fn replace_daemon(
        &mut self,
        clique: Option<&Clique>,
        step: &MemberStep,
    ) -> Result<Duration, RequestError> {
        let MemberStep::DeletePod {
            name,
            uid,
            resource_version,
            node,
            how,
        } = step
        else {
            return Ok(Duration::ZERO);
        };
        let keeper = self.keeper;
        let version = resource_version.as_deref();
        keeper.api.delete_daemon_pod(name, uid, version).await?;
        let now = Instant::now().into_std();
        self.members.pod_deleted(clique, uid, now);
        let name_of_node = node.as_deref().unwrap_or_default();
        let (label, note) = describe(name_of_node, how);
        keeper.metrics.replaced(label);
        if label == "forced" {
            warn!(node = %name_of_node, pod = &**name, "{note}");
        } else {
            info!(node = %name_of_node, pod = &**name, "{note}");
        }
        // Without a node, there is no object for the event.
        if node.is_none() {
            return Ok(PACE);
        }
        let (events, object) = (&keeper.events, node_reference(name_of_node));
        if label == "forced" {
            events.warning(&object, "ImexDaemonForced", "Update", &note);
        } else {
            events.normal(&object, "ImexDaemonReplaced", "Update", &note);
        }
        Ok(PACE)
    }

    // req: MODE-26, MODE-27
    pub(super) fn report_rollout(&mut self) {
        let events = &self.keeper.events;
        for event in self.members.take_rollout_events() {
            match event {
                RolloutEvent::Waits { node, claims } => {
                    let why = if claims.is_empty() {
                        "the kubelet plugin of the node has not confirmed within 30 s that no claim is prepared on the node".to_owned()
                    } else {
                        format!(
                            "claims of the node's pods are allocated: {}",
                            some_of(&claims)
                        )
                    };
                    let note = format!(
                        "the IMEX daemon of node {node} is outdated and will be replaced later: {why}"
                    );
                    info!(%node, "{note}");
                    events.normal(&node_reference(&node), "ImexUpdateWaits", "Update", &note);
                }
                RolloutEvent::TemplateMismatch { pod, node } => {
                    let note = format!(
                        "updates of IMEX daemons are paused: the new pod {pod} lacks its DaemonSet's annotation {TEMPLATE_ANNOTATION}; undo edits of the DaemonSet with helm upgrade (Helm 4: --force-conflicts), or stop the policy or webhook that changes pod annotations"
                    );
                    warn!(node = %node.as_deref().unwrap_or_default(), %pod, "{note}");
                    if let Some(node) = node {
                        let about = node_reference(&node);
                        events.warning(&about, "ImexUpdateStopped", "Update", &note);
                    }
                }
                RolloutEvent::Stopped { node, clique } => {
                    let note = format!(
                        "updates of IMEX daemons of NVLink clique {clique} are stopped: the new daemon of node {node} is not ready; check the daemon's pod, then fix the update or repair the node"
                    );
                    warn!(%node, %clique, "{note}");
                    events.warning(&node_reference(&node), "ImexUpdateStopped", "Update", &note);
                }
            }
        }
        self.keeper
            .metrics
            .set_rollout(&self.members.rollout_counts());
    }
}

/// The label of the metric, and the event's message.
fn describe(node: &str, how: &Replacement) -> (&'static str, String) {
    let (label, because) = match how {
        Replacement::Forced(claims) => {
            let text = format!(
                "the outdated IMEX daemon of node {node} is replaced because --force-after has passed; pods with allocated claims ({}) lose the memory that they have imported",
                some_of(claims)
            );
            return ("forced", text);
        }
        Replacement::NotRunning => ("not-running", "the daemon is not running"),
        Replacement::NoMember => ("no-member", "the node is in no clique"),
        Replacement::Drained => ("drained", "no claim uses the daemon"),
    };
    let text =
        format!("the IMEX daemon of node {node} is outdated and is being replaced: {because}");
    (label, text)
}

fn some_of(claims: &[String]) -> String {
    let named = claims.iter().take(NAMED).cloned().collect::<Vec<_>>();
    let more = claims.len().saturating_sub(NAMED);
    let named = named.join(", ");
    match (claims.is_empty(), more) {
        (true, _) => "none is known".to_owned(),
        (false, 0) => named,
        (false, more) => format!("{named} and {more} more"),
    }
}
