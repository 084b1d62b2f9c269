//! Templates that the server refuses: the domain's status has the server's message, and the domain
//! becomes Ready once the server accepts them.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use cluster_tests::fixtures::DOMAINS;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::support::{Applied, Fixture, kubectl, named, run, seconds, template, until, within};

/// The limit for the retry of a refused template.
const HEALED: Duration = Duration::from_secs(60);

// req: CD-14
#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_quota_that_refuses_the_template_is_reported_and_raising_it_is_enough() -> Result<()> {
    run(async |on| {
        let quota = |count: u32| {
            let hard = json!({"count/resourceclaimtemplates.resource.k8s.io": count.to_string()});
            json!({
                "apiVersion": "v1", "kind": "ResourceQuota",
                "metadata": {"name": "quota", "namespace": on.namespace},
                "spec": {"hard": hard},
            })
        };
        let _quota = Applied::new(&[quota(0)])?;
        on.start().await?;
        until_refused_by_server(on, "exceeded quota").await;
        on.create(&named("domain")).await?;
        is_reported(on, "exceeded quota").await?;
        let raised = Applied::new(&[quota(10)])?;
        let took = on.ready_within(HEALED, "domain").await?;
        drop(raised);
        Ok(format!(
            "Ready {} after the quota was raised",
            seconds(took)
        ))
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_policy_that_refuses_the_template_is_reported_and_its_removal_is_enough() -> Result<()> {
    run(async |on| {
        let words = "no templates on Sundays";
        let policy = Applied::new(&denial(&on.namespace, "CREATE", words))?;
        refused_until_gone(on, &policy, words).await
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_policy_that_refuses_the_deletion_is_reported_and_its_removal_is_enough() -> Result<()> {
    run(async |on| {
        on.start().await?;
        on.create_ready("domain").await?;
        let words = "no deletions on Sundays";
        let policy = Applied::new(&denial(&on.namespace, "DELETE", words))?;
        until("the server refuses deletions", async || {
            let params = DeleteParams::default().dry_run();
            let templates = on.templates(&on.namespace);
            let deleted = templates.delete("domain-channel", &params).await;
            let refused = deleted.is_err_and(|error| error.to_string().contains(words));
            ensure!(refused, "it does not");
            Ok(())
        })
        .await;
        on.delete("domain").await?;
        let message = on.until_refused("domain", "TemplateKept").await;
        ensure!(message.contains(words), "the message is {message:?}");
        policy.delete()?;
        let took = within(HEALED, "the domain is deleted", async || {
            on.is_gone("domain").await
        })
        .await?;
        Ok(format!("deleted {} after its removal", seconds(took)))
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_policy_that_changes_the_template_is_reported_and_its_removal_is_enough() -> Result<()> {
    run(async |on| {
        let group = [
            "api-resources",
            "--api-group=admissionregistration.k8s.io",
            "-o=name",
        ];
        if !kubectl(&group)?.contains("mutatingadmissionpolicies") {
            return Ok(
                "not run: this Kubernetes has no MutatingAdmissionPolicy (since 1.36)".to_owned(),
            );
        }
        let policy = Applied::new(&mutation(&on.namespace))?;
        on.start().await?;
        until("the server changes templates", async || {
            let params = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            let probe = template("probe", "none", "Workload");
            let created = on.templates(&on.namespace).create(&params, &probe).await?;
            let class = created.data.pointer(CLASS).context("no class")?;
            ensure!(class == OTHER_CLASS, "it does not: {class}");
            Ok(())
        })
        .await;
        on.create(&named("domain")).await?;
        on.until_refused("domain", "TemplateChanged").await;
        on.template_is_gone(&on.namespace, "domain-channel").await?;
        policy.delete()?;
        let took = on.ready_within(HEALED, "domain").await?;
        Ok(format!("Ready {} after its removal", seconds(took)))
    })
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_webhook_that_does_not_answer_is_reported_and_its_removal_is_enough() -> Result<()> {
    run(async |on| {
        let name = &on.namespace;
        let webhook = Applied::new(&[json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [{
                "name": "closed.example.com",
                // A closed port.
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [on_templates("CREATE")],
                "namespaceSelector": in_namespace(name),
                "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            }],
        })])?;
        refused_until_gone(on, &webhook, "failed calling webhook").await
    })
}

async fn refused_until_gone(on: &Fixture, cause: &Applied, words: &str) -> Result<String> {
    on.start().await?;
    until_refused_by_server(on, words).await;
    on.create(&named("domain")).await?;
    is_reported(on, words).await?;
    cause.delete()?;
    let took = on.ready_within(HEALED, "domain").await?;
    Ok(format!("Ready {} after its removal", seconds(took)))
}

/// A policy and its binding that refuse this operation on the templates of a namespace.
fn denial(namespace: &str, operation: &str, words: &str) -> [Value; 2] {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": namespace},
        "spec": {
            "matchConstraints": {"resourceRules": [on_templates(operation)]},
            "validations": [{"expression": "false", "message": words}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": namespace},
        "spec": {
            "policyName": namespace,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": in_namespace(namespace)},
        },
    });
    [policy, binding]
}

/// The path of the device class in a template.
const CLASS: &str = "/spec/spec/devices/requests/0/exactly/deviceClassName";

const OTHER_CLASS: &str = "other.example.com";

/// A policy and its binding that change the device class of a namespace's templates.
fn mutation(namespace: &str) -> [Value; 2] {
    let expression =
        format!("[JSONPatch{{op: \"replace\", path: \"{CLASS}\", value: \"{OTHER_CLASS}\"}}]");
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": namespace},
        "spec": {
            "matchConstraints": {"resourceRules": [on_templates("CREATE")]},
            "failurePolicy": "Fail", "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": namespace},
        "spec": {
            "policyName": namespace,
            "matchResources": {"namespaceSelector": in_namespace(namespace)},
        },
    });
    [policy, binding]
}

fn on_templates(operation: &str) -> Value {
    json!({
        "apiGroups": ["resource.k8s.io"], "apiVersions": ["*"],
        "operations": [operation], "resources": ["resourceclaimtemplates"],
    })
}

fn in_namespace(name: &str) -> Value {
    json!({"matchLabels": {"kubernetes.io/metadata.name": name}})
}

/// Waits until the server enforces the new rule.
async fn until_refused_by_server(on: &Fixture, words: &str) {
    until("the server refuses templates", async || {
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let probe = template("probe", "none", "Workload");
        let created = on.templates(&on.namespace).create(&params, &probe).await;
        match created {
            Ok(_) => bail!("it does not"),
            Err(error) => ensure!(error.to_string().contains(words), "{error}"),
        }
        Ok(())
    })
    .await;
}

/// Checks that status and an event have the reason and the server's message.
async fn is_reported(on: &Fixture, words: &str) -> Result<()> {
    let message = on.until_refused("domain", "TemplateRefused").await;
    ensure!(message.contains(words), "the message is {message:?}");
    let note = on.until_event("domain", "TemplateRefused").await;
    ensure!(note.contains(words), "the event's note is {note:?}");
    let line = kubectl(&[
        "get",
        DOMAINS,
        "-n",
        &on.namespace,
        "domain",
        "--no-headers",
    ])?;
    let line = line.lines().next().context("no line")?;
    ensure!(
        line.contains("TemplateRefused"),
        "kubectl get prints {line:?}"
    );
    Ok(())
}
