//! The controller: what `compute-domain-controller` does around the decisions, without time and network. The decision
//! on a request, its execution and the processing of its response are three separate steps.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use compute_domain_api::AllocationMode;
use compute_domain_api::crd::ComputeDomain;
use compute_domain_core::{
    Admission, Change, Content, Decision, Domain, Findings, Index, Key, Observed, ObservedTemplate,
    Outcome, Rejection, Request, StatusSchema, decide, status_patch,
};
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use k8s_openapi::jiff::Timestamp;

use crate::objects::{DRIVER_NAMESPACE, NAMESPACES, START, place, uid};
use crate::server::{Call, Failure, Reply};
use crate::store::WatchEvent;

/// The most requests of a reconcile, unless users keep changing things.
pub(crate) const MAX_REQUESTS: usize = 16;

/// A deliberate fault of the controller, to see whether the simulation finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// It ignores a UID without a domain.
    IgnoresOrphans,
    /// It trusts the watch that a domain does not exist.
    LooksUpNoDomain,
    /// It trusts the watch that a template does not exist.
    LooksUpNoTemplate,
    /// It skips the cool-down of released Leases.
    HurriesCoolDowns,
    /// It ignores claims.
    IgnoresClaims,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Watched {
    Domains,
    Templates,
    Claims,
    Leases,
}

pub(crate) struct Controller {
    pub(crate) index: Index,
    /// The watches that have yet to list before anything is reconciled.
    unlisted: BTreeSet<Watched>,
    /// The current time.
    pub(crate) now: Timestamp,
    pub(super) queue: BTreeSet<Key>,
    /// The keys to reconcile after some time.
    later: BTreeSet<Key>,
    pub(crate) passes: Vec<Pass>,
    pub(super) refusals: BTreeMap<Key, Refusal>,
    pub(super) schema: StatusSchema,
    pub(super) channel_tried: bool,
    pub(super) stored: BTreeMap<String, Content>,
    pub(super) fault: Fault,
}

pub(super) struct Refusal {
    pub(super) rejection: Rejection,
    pub(super) namespace: String,
    /// Whether to retry it.
    pub(super) is_due: bool,
}

/// One reconcile.
pub(crate) struct Pass {
    pub(crate) key: Key,
    pub(super) findings: Findings,
    pub(super) observed: Observed,
    pub(super) refreshed: bool,
    requests: usize,
    pub(crate) stage: Stage,
}

#[derive(Debug)]
pub(crate) enum Stage {
    Deciding,
    /// The request is on its way.
    Sent(Request, Call),
    /// The response is on its way.
    Answered(Request, Call, Result<Reply, Failure>),
}

/// The next step after a response.
pub(super) enum Flow {
    Decide,
    Send(Call),
    /// Stop, and reconcile again after some time.
    StopUntilLater,
}

impl Controller {
    pub(crate) fn new(fault: Fault, channel_count: Option<u32>) -> Self {
        let of_channels = [Watched::Claims, Watched::Leases];
        let of_channels = of_channels.into_iter().filter(|_| channel_count.is_some());
        let unlisted = [Watched::Domains, Watched::Templates]
            .into_iter()
            .chain(of_channels);
        Self {
            index: Index::new(channel_count.map(|count| 1..=count - 1)),
            now: START,
            channel_tried: false,
            unlisted: unlisted.collect(),
            queue: BTreeSet::new(),
            later: BTreeSet::new(),
            passes: Vec::new(),
            refusals: BTreeMap::new(),
            schema: StatusSchema::FULL,
            stored: BTreeMap::new(),
            fault,
        }
    }

    /// Sets the fields of the CRD that the controller has found out.
    pub(crate) fn schema_is(&mut self, schema: StatusSchema) {
        self.schema = schema;
    }

    // === watches ===

    pub(crate) fn take_domain(&mut self, told: WatchEvent<ComputeDomain>) {
        match told {
            WatchEvent::Begin => self.index.begin_domains(),
            WatchEvent::Apply(domain) => {
                let domain = Domain::new(domain).unwrap();
                let key: Key = domain.uid().as_str().into();
                if self.index.apply_domain(domain) != Change::Nothing {
                    self.queue.insert(key);
                }
            }
            WatchEvent::Finish => {
                self.queue.extend(self.index.finish_domains());
                self.listed(Watched::Domains);
            }
            WatchEvent::Delete(domain) => {
                let key: Key = uid(&domain.metadata).into();
                self.index.remove_domain(&key);
                self.queue.insert(key);
            }
        }
    }

    pub(crate) fn take_template(&mut self, told: WatchEvent<ResourceClaimTemplate>) {
        match told {
            WatchEvent::Begin => self.index.begin_templates(),
            WatchEvent::Apply(template) => {
                let template = ObservedTemplate::new(&template);
                let key: Key = template.domain_uid().into();
                let before = self.index.key_of_template(&template.reference().uid);
                if self.index.apply_template(template) != Change::Nothing {
                    self.queue.extend(before);
                    self.queue.insert(key);
                }
            }
            WatchEvent::Finish => {
                let gone = self.index.finish_templates();
                self.queue
                    .extend(gone.iter().map(|it| Key::from(it.domain_uid())));
                self.listed(Watched::Templates);
            }
            WatchEvent::Delete(template) => {
                let gone = self.index.remove_template(uid(&template.metadata));
                self.queue.extend(gone.map(|it| Key::from(it.domain_uid())));
                self.name_is_free(&template);
            }
        }
    }

    pub(super) fn listed(&mut self, which: Watched) {
        if self.unlisted.remove(&which) && self.is_listed() {
            self.queue.extend(self.index.keys());
        }
    }

    fn name_is_free(&mut self, template: &ResourceClaimTemplate) {
        let (namespace, name) = place(&template.metadata);
        for (key, refusal) in &mut self.refusals {
            let same =
                matches!(&refusal.rejection, Rejection::NameTaken { name: it, .. } if *it == name);
            if same && refusal.namespace == namespace {
                refusal.is_due = true;
                self.queue.insert(key.clone());
            }
        }
    }

    fn is_listed(&self) -> bool {
        self.unlisted.is_empty()
    }

    /// Queues the keys that the index has woken.
    pub(crate) fn take_woken(&mut self) {
        let woken = self.index.take_woken(self.now);
        self.queue.extend(woken);
    }

    // === the queue ===

    /// The keys that can be reconciled now.
    pub(crate) fn ready_keys(&self) -> Vec<Key> {
        let is_running = |key: &&Key| self.passes.iter().any(|pass| pass.key == **key);
        let ready = self.queue.iter().filter(|key| !is_running(key));
        ready.filter(|_| self.is_listed()).cloned().collect()
    }

    pub(crate) fn start_pass(&mut self, key: Key) {
        self.queue.remove(&key);
        let mut findings = Findings::new(self.schema);
        let refusal = self.refusals.get(&key).filter(|refusal| !refusal.is_due);
        findings.refusal = refusal.map(|refusal| refusal.rejection.clone());
        self.passes.push(Pass {
            key,
            findings,
            observed: Observed::default(),
            refreshed: false,
            requests: 0,
            stage: Stage::Deciding,
        });
    }

    /// Time passes: everything that waits for it is retried.
    pub(crate) fn fire_timers(&mut self) {
        self.queue.append(&mut self.later);
        for refusal in self.refusals.values_mut() {
            refusal.is_due = true;
        }
    }

    // === a pass ===

    /// Processes the response to a request and continues.
    pub(crate) fn go_on(
        &mut self,
        mut pass: Pass,
        request: Request,
        call: &Call,
        reply: Result<Reply, Failure>,
    ) {
        pass.requests += 1;
        let flow = self.learn(&mut pass, &request, call, reply);
        let ends = !matches!(flow, Flow::Send(_));
        if ends && matches!(request, Request::CreateLease(..)) {
            self.index.end_lease(&pass.key);
        }
        pass.stage = match flow {
            Flow::Send(call) => Stage::Sent(request, call),
            Flow::Decide if pass.requests < MAX_REQUESTS => Stage::Deciding,
            Flow::Decide | Flow::StopUntilLater => {
                self.later.insert(pass.key);
                return;
            }
        };
        self.passes.push(pass);
    }

    /// Decides on the next request, or ends the pass.
    pub(crate) fn decide(&mut self, mut pass: Pass) {
        pass.observed = self.index.observe(&pass.key, self.now);
        pass.findings.schema = self.schema;
        pass.findings.channel_tried = self.channel_tried;
        match &pass.observed.domain {
            Some(domain) => {
                let mode = domain.allocation_mode().map(AllocationMode::as_str);
                pass.findings.stored = mode.and_then(|mode| self.stored.get(mode).copied());
            }
            None if self.fault == Fault::IgnoresOrphans => return,
            None => {}
        }
        pass.findings.has_no_template |= self.fault == Fault::LooksUpNoTemplate;
        if self.fault == Fault::LooksUpNoDomain {
            pass.findings.absent_in = NAMESPACES.map(Into::into).to_vec();
        }
        let namespaces = [DRIVER_NAMESPACE.to_owned()];
        match decide(&pass.observed, &pass.findings, &namespaces) {
            Decision::Done(outcome) => self.finish(pass, &outcome),
            Decision::Send(request) => {
                if let Request::CreateLease(number, _) = &request {
                    self.index.start_lease(&pass.key, *number);
                }
                let domain = pass.observed.domain.clone();
                let call = call_of(&request, domain.as_ref(), &pass.findings);
                pass.stage = Stage::Sent(request, call);
                self.passes.push(pass);
            }
        }
    }

    fn finish(&mut self, pass: Pass, outcome: &Outcome) {
        let channels = pass.observed.channels.as_ref();
        if channels.is_some_and(|it| it.wake_at().is_some()) {
            self.later.insert(pass.key.clone());
        }
        if let Outcome::Rejected(Rejection::NameTaken { .. }) = outcome {
            self.later.insert(pass.key);
            return;
        }
        self.refusals.remove(&pass.key);
        // No watch shows when other finalizers of a template without label are removed.
        if pass.findings.unlabelled.is_some() {
            self.later.insert(pass.key);
        }
    }
}

fn call_of(request: &Request, domain: Option<&Arc<Domain>>, findings: &Findings) -> Call {
    let namespace = || domain.unwrap().namespace().to_owned();
    let at = || (namespace(), domain.unwrap().name().to_owned());
    match request.clone() {
        Request::AddFinalizer(patch) | Request::RemoveFinalizer(patch) => {
            Call::PatchDomain(at(), patch)
        }
        Request::WriteStatus(admission) => {
            let now = Timestamp::UNIX_EPOCH;
            let patch = status_patch(domain.unwrap(), &admission.into(), findings.schema, now);
            Call::WriteStatus(at(), patch)
        }
        // No claim waits in the simulation.
        Request::CountNodes => unreachable!(),
        Request::CreateTemplate(template) => Call::CreateTemplate(template),
        Request::DryRunTemplate(template) => Call::DryRun(template),
        Request::DeleteTemplate(template) => Call::DeleteTemplate(template),
        Request::RemoveTemplateFinalizer(template, patch) => Call::PatchTemplate(template, patch),
        Request::LookUpDomain { namespace, name } => match name {
            Some(name) => Call::ReadDomain((namespace.into(), name.into())),
            None => Call::FindDomain(namespace.into()),
        },
        Request::LookUpTemplate { name } => Call::ReadTemplate((namespace(), name.into())),
        Request::TryChannel => {
            let (now, schema) = (Timestamp::UNIX_EPOCH, StatusSchema::CHANNEL_ONLY);
            let any = Admission::Assigned(1).into();
            Call::TryStatus(at(), status_patch(domain.unwrap(), &any, schema, now))
        }
        Request::CreateLease(_, lease) | Request::RestoreLease(lease) => Call::CreateLease(lease),
        Request::ChangeLease(lease, patch) => Call::ChangeLease(lease, patch),
        Request::DeleteLease(lease) => Call::DeleteLease(lease),
    }
}
