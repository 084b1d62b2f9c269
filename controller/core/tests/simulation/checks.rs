//! Checks of the final state.

use compute_domain_api::crd::{ComputeDomain, ComputeDomainState};
use compute_domain_core::StatusSchema;
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::leases::{check_leases, expected_of_channel};
use crate::objects::{
    OF_OTHERS, domain_uid, has_finalizer, has_our_finalizer, is_being_deleted, is_by_controller,
    is_copied, is_daemon, is_fit_for, is_made_for_label, place, requested_uid, uid, wanted_name,
    wanted_place,
};
use crate::server::Server;

/// Fails with a description of the first problem.
pub(crate) fn check(server: &Server, channel_count: Option<u32>) -> Result<(), String> {
    if let Some(violation) = &server.violation {
        return Err(violation.clone());
    }
    for template in server.templates.values() {
        check_template(server, template).map_err(|what| {
            let (namespace, name) = place(&template.metadata);
            format!(
                "template {namespace}/{name}: {what}: {:?}",
                template.metadata
            )
        })?;
    }
    for domain in server.domains.values() {
        check_domain(server, domain, channel_count).map_err(|what| {
            let (namespace, name) = place(&domain.metadata);
            format!(
                "domain {namespace}/{name}: {what}: {:?}, {:?}",
                domain.metadata, domain.status
            )
        })?;
    }
    check_leases(server)
}

/// No object of ours is left for deleted domains, and none waits for our finalizer.
fn check_template(server: &Server, template: &ResourceClaimTemplate) -> Result<(), &'static str> {
    let metadata = &template.metadata;
    if is_daemon(metadata) || server.foreign.contains(uid(metadata)) {
        return Ok(());
    }
    let Some(owner) = domain_uid(metadata) else {
        // The domain that wants it finds it by name, and its status reports the template's state.
        let mut domains = server.domains.values();
        let is_wanted = domains.any(|it| wanted_place(it) == place(metadata));
        return is_wanted.then_some(()).ok_or("it has lost its label");
    };
    if is_being_deleted(metadata) {
        let waits = has_our_finalizer(metadata);
        return (!waits)
            .then_some(())
            .ok_or("its deletion waits for our finalizer");
    }
    let is_ours = is_made_for_label(template) && !is_copied(metadata);
    match server.domains.by_uid(owner) {
        None if is_ours => Err("its domain is deleted"),
        Some(owner) if is_ours && is_former(metadata, owner) => Err("its domain wants another"),
        _ => Ok(()),
    }
}

/// Whether a controller created it for a former spec of this domain.
fn is_former(metadata: &ObjectMeta, owner: &ComputeDomain) -> bool {
    let (namespace, name) = wanted_place(owner);
    let at = place(metadata);
    let usable = !name.contains('_');
    is_by_controller(metadata) && usable && at.0 == namespace && at.1 != name
}

fn check_domain(
    server: &Server,
    domain: &ComputeDomain,
    channel_count: Option<u32>,
) -> Result<(), String> {
    let metadata = &domain.metadata;
    let place = wanted_place(domain);
    let template = server.templates.get(&place);
    if is_being_deleted(metadata) {
        // Copies in its namespace are deleted with it, and may be blocked, too.
        let held = server.templates.values().any(|it| is_held_for(it, domain));
        return held
            .then_some(())
            .ok_or_else(|| "its deletion hangs".into());
    }
    let expected = match expected_of_channel(server, domain, channel_count) {
        Some(expected) if !is_rejected_otherwise(server, domain) => expected,
        _ => expected_reason(server, domain, template),
    };
    if expected == "Admitted" && !has_our_finalizer(metadata) {
        return Err("it is without finalizer".into());
    }
    check_status(domain, server.schema, expected)
}

/// Whether other finalizers block this template of a domain that is being deleted.
fn is_held_for(template: &ResourceClaimTemplate, domain: &ComputeDomain) -> bool {
    let metadata = &template.metadata;
    let same_namespace = place(metadata).0 == place(&domain.metadata).0;
    same_namespace && is_being_deleted(metadata) && has_finalizer(metadata, OF_OTHERS)
}

/// Whether it is rejected for a reason that is not about channels.
fn is_rejected_otherwise(server: &Server, domain: &ComputeDomain) -> bool {
    let reason = expected_reason(server, domain, None);
    // A template with its label blocks it before the controller tries to create another.
    let template = server.templates.get(&wanted_place(domain));
    let in_the_way = template.is_some_and(|it| {
        let own = domain_uid(&it.metadata) == Some(uid(&domain.metadata));
        own && server.foreign.contains(uid(&it.metadata))
    });
    in_the_way || ["InvalidTemplateName", "DriverManagedLeftovers"].contains(&reason)
}

fn expected_reason(
    server: &Server,
    domain: &ComputeDomain,
    template: Option<&ResourceClaimTemplate>,
) -> &'static str {
    let owner = Some(uid(&domain.metadata));
    let is_own_daemon =
        |it: &ResourceClaimTemplate| is_daemon(&it.metadata) && domain_uid(&it.metadata) == owner;
    if wanted_name(domain).contains('_') {
        return "InvalidTemplateName";
    }
    if server.templates.values().any(is_own_daemon) {
        return "DriverManagedLeftovers";
    }
    let Some(template) = template else {
        return "Admitted, but there is no template";
    };
    let metadata = &template.metadata;
    let foreign = server.foreign.contains(uid(metadata));
    // A template without label is found by its name and content.
    let asked = requested_uid(template);
    let is_own = domain_uid(metadata).or(asked.as_deref()) == owner;
    match (foreign || !is_own, is_being_deleted(metadata)) {
        (true, _) => "TemplateNameTaken",
        (false, true) => "TemplateHeld",
        (false, false) if is_fit_for(template, domain) => "Admitted",
        (false, false) => "Admitted, but the template is altered",
    }
}

fn check_status(
    domain: &ComputeDomain,
    schema: StatusSchema,
    expected: &str,
) -> Result<(), String> {
    let status = domain.status.clone().unwrap_or_default();
    let ready = status.status == ComputeDomainState::Ready;
    if ready != (expected == "Admitted") {
        return Err(format!("it should be {expected}"));
    }
    let reason = status.conditions.first().map(|it| it.reason.as_str());
    if schema.conditions && reason != Some(expected) {
        return Err(format!("the reason should be {expected}"));
    }
    let generation = domain.metadata.generation;
    if schema.observed_generation && status.observed_generation != generation {
        return Err("the status is about another generation".into());
    }
    Ok(())
}
