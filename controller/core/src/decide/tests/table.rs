//! Compares the lifecycle's table with decisions about objects.

use compute_domain_api::names::FINALIZER;
use serde_json::json;

use super::*;
use crate::fixtures::{
    OF_OTHERS, TIME, mk_daemon_template, mk_domain, mk_template_object, reported, with_device_class,
};
use crate::lifecycle::Transition;

/// The most requests that a domain needs.
const MOST_REQUESTS: usize = 9;

/// The variants of a template: whether it is being deleted, and its finalizers.
const TEMPLATES: [Option<(bool, &[&str])>; 6] = [
    None,
    Some((false, &[FINALIZER])),
    Some((false, &[FINALIZER, OF_OTHERS])),
    Some((true, &[FINALIZER])),
    Some((true, &[OF_OTHERS, FINALIZER])),
    Some((true, &[OF_OTHERS])),
];

/// One domain and its template in the API server, and the findings of the reconcile.
#[derive(Clone, Debug)]
struct Objects {
    deleted: bool,
    finalized: bool,
    reported: Option<Admission>,
    template: Option<Template>,
    driver_managed: bool,
    findings: Findings,
}

#[derive(Clone, Debug, PartialEq)]
struct Template {
    deleted: bool,
    finalizers: Vec<String>,
    altered: bool,
}

impl Objects {
    /// All combinations, except a Ready domain without our finalizer, which cannot occur.
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for bits in 0..32 {
            let [deleted, finalized, driver_managed, altered, reduced] =
                [1, 2, 4, 8, 16].map(|bit| bits & bit != 0);
            for template in TEMPLATES {
                for reported in [None, Some(Admission::Admitted), Some(of_before())] {
                    if finalized || reported != Some(Admission::Admitted) {
                        all.push(Self {
                            deleted,
                            finalized,
                            reported,
                            template: template.map(|it| Template::new(it, altered)),
                            driver_managed,
                            findings: Findings::new(schema(reduced)),
                        });
                    }
                }
            }
        }
        all
    }

    fn domain(&self) -> Domain {
        let patch = json!({ "metadata": {
            "finalizers": self.finalized.then_some([FINALIZER]),
            "deletionTimestamp": self.deleted.then_some(TIME),
        } });
        mk_domain(match &self.reported {
            Some(admission) => reported(self.findings.schema, patch, admission),
            None => patch,
        })
    }

    fn observed(&self) -> Observed {
        let own = self.template.as_ref().map(Template::observed);
        let daemon = self
            .driver_managed
            .then(|| mk_daemon_template(DRIVER_NAMESPACE));
        observe(self.domain(), own.into_iter().chain(daemon))
    }

    fn apply(&mut self, request: &Request) {
        match request {
            Request::AddFinalizer(_) => self.finalized = true,
            Request::RemoveFinalizer(_) => self.finalized = false,
            Request::WriteStatus(admission) => self.reported = Some(admission.clone()),
            Request::CreateTemplate(_) => {
                assert!(self.template.is_none(), "created twice");
                self.template = Some(Template::new((false, &[FINALIZER]), false));
            }
            Request::DeleteTemplate(_) => self.template.as_mut().unwrap().deleted = true,
            Request::RemoveTemplateFinalizer(..) => {
                let finalizers = &mut self.template.as_mut().unwrap().finalizers;
                finalizers.retain(|finalizer| finalizer != FINALIZER);
            }
            Request::DryRunTemplate(template) => {
                let content = Content::new(&template.spec.spec, crate::fixtures::UID);
                self.findings.stored = Some(content);
            }
            Request::LookUpTemplate { .. } => {
                self.findings.has_no_template = self.template.is_none();
            }
            Request::LookUpDomain { .. } => panic!("the domain exists"),
            Request::CountNodes => panic!("no claim waits"),
            Request::TryChannel
            | Request::CreateLease(..)
            | Request::ChangeLease(..)
            | Request::DeleteLease(_)
            | Request::RestoreLease(_) => panic!("no domain has its own channel"),
        }
        // The API server removes deleted objects without finalizers.
        self.template
            .take_if(|template| template.deleted && template.finalizers.is_empty());
    }

    fn decide(&self) -> Decision {
        decide_with(&self.observed(), &self.findings)
    }
}

impl Template {
    fn new((deleted, finalizers): (bool, &[&str]), altered: bool) -> Self {
        Self {
            deleted,
            finalizers: finalizers.iter().map(ToString::to_string).collect(),
            altered,
        }
    }

    fn observed(&self) -> ObservedTemplate {
        let mut patch = json!({ "metadata": {
            "finalizers": self.finalizers,
            "deletionTimestamp": self.deleted.then_some(TIME),
        } });
        if self.altered {
            crate::fixtures::merge(&mut patch, with_device_class("gpu.nvidia.com"));
        }
        ObservedTemplate::new(&mk_template_object(patch))
    }
}

fn of_before() -> Admission {
    Admission::Rejected(Rejection::SpecMissing)
}

fn schema(reduced: bool) -> StatusSchema {
    StatusSchema {
        conditions: !reduced,
        observed_generation: !reduced,
        channel: !reduced,
    }
}

/// The action of a decision in the table's words. A status that is up to date needs no request.
fn name_of(decision: &Decision) -> &'static str {
    match decision {
        Decision::Send(Request::AddFinalizer(_)) => "add the finalizer",
        Decision::Send(Request::CreateTemplate(_)) => "create the template",
        Decision::Send(Request::DeleteTemplate(_)) => "delete the template",
        Decision::Send(Request::RemoveTemplateFinalizer(..)) => "remove the template's finalizer",
        Decision::Send(Request::RemoveFinalizer(_)) => "remove the finalizer",
        Decision::Send(Request::WriteStatus(Admission::Admitted))
        | Decision::Done(Outcome::Admitted) => "write status Ready",
        Decision::Send(Request::WriteStatus(Admission::Rejected(_)))
        | Decision::Done(Outcome::Rejected(_)) => "write the reason into the status",
        Decision::Done(Outcome::Blocked(_)) => "wait",
        Decision::Done(Outcome::Gone) => "nothing",
        Decision::Send(Request::LookUpTemplate { .. }) => "look up the template",
        Decision::Send(_) => panic!("not an action of the table"),
    }
}

#[test]
fn every_request_matches_the_tables_action_and_leads_to_its_state() {
    for mut objects in Objects::all() {
        // A dry run is not an action: it only determines the event.
        if let Decision::Send(request @ Request::DryRunTemplate(_)) = objects.decide() {
            objects.apply(&request);
        }
        let domain = objects.domain();
        let driver_namespaces = [DRIVER_NAMESPACE.to_owned()];
        let finding = find::find(
            &domain,
            &objects.observed(),
            &objects.findings,
            &driver_namespaces,
        );
        let Transition { action, next } = state(&domain).on(finding.event);
        let decision = objects.decide();
        match (action.name(finding.event), name_of(&decision)) {
            // While a domain waits, its status has the reason. The template of a rejected domain is
            // released when a user deletes it.
            ("wait", "write the reason into the status")
            | ("write the reason into the status", "remove the template's finalizer") => {}
            (expected, name) => assert_eq!(name, expected, "{objects:?}"),
        }
        if let Decision::Send(request) = &decision {
            objects.apply(request);
        }
        // Without conditions, our Ready status looks like the Go driver's.
        if objects.findings.schema == StatusSchema::FULL {
            let after = state(&objects.domain());
            assert_eq!(after, next, "after {decision:?}: {objects:?}");
        }
    }
}

#[test]
fn every_domain_is_done_within_nine_requests() {
    for mut objects in Objects::all() {
        let start = objects.clone();
        let mut requests = 0;
        let outcome = loop {
            match objects.decide() {
                Decision::Send(request) => objects.apply(&request),
                Decision::Done(outcome) => break outcome,
            }
            requests += 1;
            assert!(requests <= MOST_REQUESTS, "{start:?}");
        };
        let template = objects.template.as_ref();
        let held = template.is_some_and(|template| template.deleted);
        match outcome {
            Outcome::Blocked(_) => assert!(held && start.deleted, "{start:?}"),
            Outcome::Gone => {
                assert!(start.deleted && !objects.finalized && template.is_none());
            }
            Outcome::Admitted => {
                let template = template.unwrap();
                assert!(objects.finalized && !template.deleted && !template.altered);
            }
            Outcome::Rejected(Rejection::TemplateHeld { .. }) => {
                assert!(held && !start.deleted && !start.driver_managed, "{start:?}");
            }
            Outcome::Rejected(_) => {
                assert!(start.driver_managed && !start.deleted);
                let stays = start.template.filter(|template| !template.deleted);
                assert!(stays.is_none() || stays.as_ref() == template, "{objects:?}");
            }
        }
    }
}
