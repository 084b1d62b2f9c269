//! Reports about `ComputeDomains`, as events and in the log.

use compute_domain_api::names::API_VERSION;
use std::collections::BTreeSet;

use compute_domain_core::{Admission, Clique, Domain, NodeCount, Report, TemplateRef};
use daemon_runtime::Events;
use k8s_openapi::api::core::v1::ObjectReference;
use tracing::{info, warn};

/// How many claims, cliques or other domains an event names.
const NAMED: usize = 5;

/// Writes the events of `ComputeDomains`.
#[derive(Clone, Debug)]
pub(crate) struct Reports {
    events: Events,
}

impl Reports {
    pub(crate) fn new(events: Events) -> Self {
        Self { events }
    }

    /// Reports a new status.
    pub(crate) fn admission(&self, domain: &Domain, report: &Report) {
        let admission = &report.admission;
        let (reason, message) = (admission.reason(), report.message());
        info!(status = report.state(domain).as_str(), reason, "{message}");
        let object = reference(domain);
        match admission {
            Admission::Admitted | Admission::NotIsolated => {
                self.events.normal(&object, reason, "Admit", &message);
            }
            // The next status follows at once.
            Admission::Assigned(_) => {}
            Admission::Rejected(_) => self.events.warning(&object, reason, "Admit", &message),
        }
    }

    /// The controller starts over, because the API server has an older state than before. `lease`: the controller's
    /// own.
    pub(crate) fn history_lost(&self, lease: &ObjectReference) {
        let note = "the API server has an older version of this Lease than before, as if etcd was restored from a snapshot; the controller drops its cache and lists all objects again";
        warn!("{note}");
        self.events.warning(lease, "HistoryLost", "Restart", note);
    }

    /// The Lease of the domain's channel was lost and is created again.
    pub(crate) fn channel_rebuilt(&self, domain: &Domain, number: u32) {
        let note = format!(
            "the missing Lease of IMEX channel {number} was created again from the status; no channel is assigned for 10 minutes, so that two ComputeDomains do not get the same channel"
        );
        warn!("{note}");
        let object = reference(domain);
        self.events
            .warning(&object, "ChannelRebuilt", "Assign", &note);
    }

    /// The domain is being deleted while claims of it exist. Pods that use them keep their channel until they end;
    /// pods that have not started do not get one.
    pub(crate) fn claims_in_use<'a>(&self, domain: &Domain, claims: impl Iterator<Item = &'a str>) {
        let claims: Vec<_> = claims.collect();
        if claims.is_empty() {
            return;
        }
        let named = enumerate(&claims);
        let note = format!(
            "the ComputeDomain was deleted, but some of its ResourceClaims still exist: {named}; running pods keep their channel, but new pods do not get a channel"
        );
        warn!("{note}");
        let object = reference(domain);
        self.events.warning(&object, "ClaimsInUse", "Delete", &note);
    }

    /// A claim has waited long, and some nodes have no clique.
    pub(crate) fn nodes_without_clique(&self, domain: &Domain, count: NodeCount) {
        let note = count.message();
        warn!("{note}");
        let object = reference(domain);
        self.events
            .warning(&object, "NodesWithoutClique", "Schedule", &note);
    }

    /// These other domains hold prepared claims in the same cliques.
    pub(crate) fn clique_shared(
        &self,
        domain: &Domain,
        cliques: &BTreeSet<Clique>,
        others: &[String],
    ) {
        let (cliques, others) = (enumerate(cliques), enumerate(others));
        let note = format!(
            "this ComputeDomain is not isolated from {others}: they share an IMEX channel in the same NVLink clique ({cliques}), because of imex.isolation=none or the condition NotIsolated; to isolate them, run them one after the other, or in different cliques with a node selector"
        );
        warn!(domain = name(domain), "{note}");
        let object = reference(domain);
        self.events
            .warning(&object, "CliqueShared", "Prepare", &note);
    }

    /// Pods of the domain are in more than one clique.
    pub(crate) fn cliques_split(&self, domain: &Domain, cliques: &BTreeSet<Clique>) {
        let (count, named) = (cliques.len(), enumerate(cliques));
        let note = format!(
            "the ComputeDomain has prepared claims in {count} NVLink cliques: {named}; pods in different cliques cannot share GPU memory over IMEX; if the pods need to share memory, keep them in one clique with a node selector"
        );
        warn!(domain = name(domain), "{note}");
        let object = reference(domain);
        self.events
            .warning(&object, "CliquesSplit", "Prepare", &note);
    }

    /// The template differs from the desired one, and is replaced.
    pub(crate) fn repair(&self, domain: &Domain, template: &TemplateRef) {
        let note = format!(
            "{template} does not match the ComputeDomain, or has lost its label; the controller deletes the template and creates it again"
        );
        warn!("{note}");
        let object = reference(domain);
        self.events
            .warning(&object, "TemplateRepaired", "Repair", &note);
    }

    /// The template of a replaced spec is deleted.
    pub(crate) fn former(&self, domain: &Domain, template: &TemplateRef) {
        let note = format!(
            "{template} is being deleted, because the ComputeDomain's spec now names another template"
        );
        info!("{note}");
        let object = reference(domain);
        self.events
            .normal(&object, "FormerTemplateDeleted", "Replace", &note);
    }

    /// Another controller also writes.
    pub(crate) fn second_controller(&self, domain: &Domain) {
        let note = "another controller, such as the Go driver's, also reconciles ComputeDomains, and the two revert each other's changes; run only one (helm list -A; for the chart dra-driver-nvidia-gpu, set resources.computeDomains.enabled=false)";
        warn!(domain = %name(domain), "{note}");
        let object = reference(domain);
        self.events
            .warning(&object, "SecondController", "Admit", note);
    }

    /// The Go driver's IMEX daemons of the domain are kept while these claims are allocated.
    pub(crate) fn go_daemons_in_use(&self, domain: &Domain, claims: &[String]) {
        let named = enumerate(claims);
        let note = format!(
            "the IMEX daemons of NVIDIA's driver stay while these claims are allocated: {named}; new pods of the ComputeDomain start only after all its running pods have ended, so suspend jobs that restart pods"
        );
        info!(domain = name(domain), "{note}");
        let object = reference(domain);
        self.events.normal(&object, "GoDaemonsInUse", "Move", &note);
    }

    /// The Go driver's IMEX daemons are removed.
    pub(crate) fn go_daemons_removed(&self, domain: &Domain) {
        let note = "no claim is allocated any more, so the IMEX daemons of NVIDIA's driver were removed; this driver's daemons serve the ComputeDomain from now on";
        info!(domain = name(domain), "{note}");
        let object = reference(domain);
        self.events
            .normal(&object, "GoDaemonsRemoved", "Move", note);
    }

    /// The Go driver's IMEX daemons were created again.
    pub(crate) fn go_daemons_came_back(&self, domain: &Domain, object: &str) {
        let note = format!(
            "{object} was removed but came back within ten minutes, probably from the Go driver's controller; disable ComputeDomains in the Go driver (resources.computeDomains.enabled=false). This controller removes the object again after ten minutes"
        );
        warn!(domain = name(domain), "{note}");
        let about = reference(domain);
        self.events
            .warning(&about, "GoDaemonsCameBack", "Move", &note);
    }

    /// Requests for the domain keep failing.
    pub(crate) fn keeps_failing(&self, domain: &Domain, error: &str) {
        let note = format!("the controller's requests keep failing and are retried: {error}");
        let object = reference(domain);
        self.events
            .warning(&object, "ReconcileFailed", "Reconcile", &note);
    }

    /// Requests for a template of a deleted domain keep failing.
    pub(crate) fn keeps_failing_for(&self, template: &TemplateRef, error: &str) {
        let note = format!("cannot remove the template of a deleted ComputeDomain: {error}");
        let object = ObjectReference {
            api_version: Some("resource.k8s.io/v1".to_owned()),
            kind: Some("ResourceClaimTemplate".to_owned()),
            namespace: Some(template.namespace.to_string()),
            name: Some(template.name.to_string()),
            uid: Some(template.uid.to_string()),
            ..ObjectReference::default()
        };
        self.events
            .warning(&object, "ReconcileFailed", "Reconcile", &note);
    }
}

/// The first few, and the number of the others.
pub(crate) fn enumerate<T: AsRef<str>>(
    all: impl IntoIterator<Item = T, IntoIter: ExactSizeIterator>,
) -> String {
    let all = all.into_iter();
    let more = match all.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named: Vec<_> = all.take(NAMED).collect();
    let named: Vec<_> = named.iter().map(AsRef::as_ref).collect();
    named.join(", ") + &more
}

/// `namespace/name`.
pub(crate) fn name(domain: &Domain) -> String {
    format!("{}/{}", domain.namespace(), domain.name())
}

fn reference(domain: &Domain) -> ObjectReference {
    ObjectReference {
        api_version: Some(API_VERSION.to_owned()),
        kind: Some("ComputeDomain".to_owned()),
        namespace: Some(domain.namespace().to_owned()),
        name: Some(domain.name().to_owned()),
        uid: Some(domain.uid().to_string()),
        ..ObjectReference::default()
    }
}
