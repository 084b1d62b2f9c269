//! A thousand hostile `ComputeDomains`.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};

use crate::support::{
    FINALIZER, FOREIGN_FINALIZER, Fixture, LABEL, TARGET_LABEL, domain, named, reason, run,
    seconds, state, throughout, within,
};

const A_MINUTE: Duration = Duration::from_secs(60);
const COUNT: usize = 1_000;

#[test]
#[ignore = "needs the cluster of hack/e2e.sh controller"]
fn a_thousand_hostile_domains_get_a_status_and_affect_no_others() -> Result<()> {
    run(async |on| {
        let neighbour = on.new_namespace("neighbour").await?;
        let controller = on.start().await?;
        let pid = controller.pid()?;
        on.create_in(&neighbour, &named("good")).await?;
        on.create_foreign_template("foreign-0").await?;
        let owner = create_owner(on).await?;
        within(A_MINUTE, "the good domain is Ready", async || {
            let good = on.domains(&neighbour).get("good").await?;
            ensure!(state(&good) == Some("Ready"), "{}", good.data["status"]);
            Ok(())
        })
        .await?;
        let elsewhere = templates_elsewhere(on).await?;
        stream::iter(0..COUNT)
            .map(|i| create_hostile(on, i, &owner))
            .buffer_unordered(16)
            .try_collect::<Vec<()>>()
            .await?;
        let took = within(
            Duration::from_secs(120),
            "each domain has its status",
            async || all_are_answered(on).await,
        )
        .await?;
        ensure!(controller.pid()? == pid, "it was restarted");
        controller.ready()?;
        let now = templates_elsewhere(on).await?;
        ensure!(now == elsewhere, "{now:?} instead of {elsewhere:?}");
        on.create_in(&neighbour, &named("late")).await?;
        let late = within(
            Duration::from_secs(5),
            "a good domain is Ready",
            async || {
                let late = on.domains(&neighbour).get("late").await?;
                ensure!(state(&late) == Some("Ready"), "{}", late.data["status"]);
                Ok(())
            },
        )
        .await?;
        is_quiet(on).await?;
        let states = states(on).await?;
        on.release_foreign_finalizers().await?;
        let (took, late) = (seconds(took), seconds(late));
        Ok(format!("{states:?} after {took}; a good one in {late}"))
    })
}

/// Template names with a meaning in YAML, paths or templates, or that are taken.
fn template_name(i: usize) -> String {
    let equal = [
        "x\nnamespace: kube-system",
        "x\r\n---\nkind: Namespace",
        "töst-模板",
        "123",
        "on",
        "null",
        "~",
        "../x",
        "kube-system/x",
        "foreign-0",
        "good-channel",
        "",
        " a ",
        "-a",
        "a..b",
        "A.B",
        "{{ .Name }}",
        "$(NAME)",
        "x\u{0}y",
        "x\u{202e}y",
        "everybodys",
    ];
    match i % 25 {
        21 => "a".repeat(300),
        22 => "a".repeat(253),
        23 => "a".repeat(100_000),
        24 => format!("own-{i}"),
        other => equal.get(other).copied().unwrap_or_default().to_owned(),
    }
}

async fn create_hostile(on: &Fixture, i: usize, owner: &Value) -> Result<()> {
    let mut hostile = domain(&format!("h{i}"), &template_name(i));
    decorate(&mut hostile, i, owner)?;
    on.create(&hostile).await?;
    Ok(())
}

/// Metadata and other fields. 25 and 11 are coprime: each name is combined with each of them.
fn decorate(hostile: &mut DynamicObject, i: usize, owner: &Value) -> Result<()> {
    let metadata = &mut hostile.metadata;
    let many = |count: usize, key: &str, value: &str| -> BTreeMap<String, String> {
        let pair = |k| (format!("{key}-{k}"), value.to_owned());
        (0..count).map(pair).collect()
    };
    match i % 11 {
        1 => metadata.labels = Some(many(500, "label", &"v".repeat(63))),
        2 => metadata.annotations = Some(many(50, "annotation", &"\n\"{}".repeat(200))),
        3 => metadata.finalizers = Some(vec![FOREIGN_FINALIZER.to_owned()]),
        4 => metadata.finalizers = Some(vec![FINALIZER.to_owned()]),
        5 => metadata.owner_references = Some(vec![serde_json::from_value(owner.clone())?]),
        6 => {
            let mut labels = many(1, LABEL, "x");
            labels.insert(LABEL.to_owned(), "not-a-uid".to_owned());
            labels.insert(TARGET_LABEL.to_owned(), "Workload".to_owned());
            metadata.labels = Some(labels);
        }
        7 => hostile.data = json!({}),
        8 => hostile.data["spec"]["numNodes"] = json!(i64::MAX),
        9 => hostile.data["spec"]["channel"]["allocationMode"] = json!("All"),
        10 => hostile.data["status"] = json!({"status": "Ready", "nodes": []}),
        _ => {}
    }
    Ok(())
}

async fn create_owner(on: &Fixture) -> Result<Value> {
    let owner = on.create_foreign_template("owner").await?;
    Ok(json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "name": "owner", "uid": owner.metadata.uid, "blockOwnerDeletion": true, "controller": true,
    }))
}

/// Each is Ready, or `NotReady` for a reason.
async fn all_are_answered(on: &Fixture) -> Result<()> {
    let all = on
        .domains(&on.namespace)
        .list(&ListParams::default())
        .await?;
    ensure!(all.items.len() == COUNT, "there are {}", all.items.len());
    for domain in &all {
        let (state, reason) = (state(domain), reason(domain));
        ensure!(
            matches!(
                (state, reason),
                (Some("Ready"), Some("Admitted")) | (Some("NotReady"), Some(_))
            ),
            "{} has {state:?} {reason:?}",
            domain.name_any(),
        );
    }
    Ok(())
}

/// The number of domains by reason.
async fn states(on: &Fixture) -> Result<BTreeMap<String, usize>> {
    let mut counts = BTreeMap::new();
    for domain in &on
        .domains(&on.namespace)
        .list(&ListParams::default())
        .await?
    {
        let reason = reason(domain).unwrap_or_default().to_owned();
        *counts.entry(reason).or_default() += 1;
    }
    Ok(counts)
}

/// Checks that the controller writes no more to them.
async fn is_quiet(on: &Fixture) -> Result<()> {
    let before = on.snapshot().await?;
    throughout(Duration::from_secs(3), async || {
        on.is_unchanged_since(&before).await
    })
    .await
}

/// Versions of the templates in namespaces without hostile domains, and of foreign templates in the others.
async fn templates_elsewhere(on: &Fixture) -> Result<BTreeMap<String, String>> {
    let all = on.all_templates().list(&ListParams::default()).await?;
    let foreign = |it: &DynamicObject| !it.labels().contains_key(LABEL);
    let elsewhere = |it: &DynamicObject| it.namespace().as_ref() != Some(&on.namespace);
    let entry = |it: DynamicObject| {
        let key = format!("{}/{}", it.namespace().unwrap_or_default(), it.name_any());
        (key, it.resource_version().unwrap_or_default())
    };
    let all = all.items.into_iter();
    Ok(all
        .filter(|it| foreign(it) || elsewhere(it))
        .map(entry)
        .collect())
}
