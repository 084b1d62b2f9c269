mod channels;
mod deleted;
mod live;
mod orphans;
mod rejected;
mod repair;
mod strays;
mod table;

use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use serde_json::{Value, json};

use super::*;
use crate::fixtures::{
    TEMPLATE_UID, UID, finalized, merged, mk_domain, mk_reference, mk_template, mk_template_object,
    removal, with_reported_status,
};
use crate::{Content, ObservedTemplate, StatusSchema, TemplateRef};

/// The namespace of the Go driver's driver-managed mode.
const DRIVER_NAMESPACE: &str = "nvidia";

fn decide_with(observed: &Observed, findings: &Findings) -> Decision {
    decide(observed, findings, &[DRIVER_NAMESPACE.to_owned()])
}

/// The decision before the first request.
fn decide_first(observed: &Observed) -> Decision {
    decide_with(observed, &mk_findings())
}

fn mk_findings() -> Findings {
    Findings::new(StatusSchema::FULL)
}

fn observe(domain: Domain, templates: impl IntoIterator<Item = ObservedTemplate>) -> Observed {
    Observed {
        domain: Some(domain.into()),
        ..observe_orphans(templates)
    }
}

fn observe_orphans(templates: impl IntoIterator<Item = ObservedTemplate>) -> Observed {
    Observed {
        templates: templates.into_iter().map(Into::into).collect(),
        ..Observed::default()
    }
}

/// A Ready domain with our finalizer.
fn ready() -> Domain {
    with_reported_status(finalized(), &Admission::Admitted)
}

/// A template without the label of a domain, found under the wanted name.
fn unlabelled(patch: Value) -> Option<ObservedTemplate> {
    let labels = json!({ "metadata": { "labels": null } });
    let object = mk_template_object(merged(labels, patch));
    ObservedTemplate::without_label(&object, mk_domain(json!({})).uid())
}

fn template_patched(patch: Value) -> [ObservedTemplate; 1] {
    [mk_template(patch)]
}

fn delete_own() -> Decision {
    Decision::Send(Request::DeleteTemplate(mk_reference()))
}

fn release_own() -> Decision {
    release(mk_reference())
}

/// The removal of our finalizer, the only one, from this template.
fn release(template: TemplateRef) -> Decision {
    let patch = removal(&template.uid);
    Decision::Send(Request::RemoveTemplateFinalizer(template, patch))
}

fn remove_finalizer() -> Decision {
    Decision::Send(Request::RemoveFinalizer(removal(UID)))
}

fn write(admission: Admission) -> Decision {
    Decision::Send(Request::WriteStatus(admission))
}

fn write_held() -> Decision {
    write(Admission::Rejected(held()))
}

fn held() -> Rejection {
    Rejection::TemplateHeld {
        template: mk_reference(),
    }
}

/// The API server has no template of the wanted name.
fn without_template() -> Findings {
    Findings {
        has_no_template: true,
        ..mk_findings()
    }
}

/// The API server has this template under the wanted name.
fn findings_with_unlabelled(template: Option<ObservedTemplate>) -> Findings {
    Findings {
        unlabelled: Some(template.unwrap()),
        ..mk_findings()
    }
}

fn findings_with(refusal: Rejection) -> Findings {
    Findings {
        refusal: Some(refusal),
        ..mk_findings()
    }
}

/// The API server rejects the deletion and the release of this template.
fn findings_with_kept(uid: &str) -> Findings {
    let mut findings = mk_findings();
    findings
        .kept
        .insert(uid.into(), "denied by policy".to_owned());
    findings
}

fn kept() -> Rejection {
    Rejection::TemplateKept {
        template: mk_reference(),
        message: "denied by policy".to_owned(),
    }
}

fn mk_name_taken() -> Rejection {
    Rejection::NameTaken {
        name: "train-a-channel".to_owned(),
        owner: "no ComputeDomain".to_owned(),
    }
}

/// The reason in the status to write.
fn rejection(decision: Decision) -> Rejection {
    match decision {
        Decision::Send(Request::WriteStatus(Admission::Rejected(rejection))) => rejection,
        decision => panic!("not rejected: {decision:?}"),
    }
}
