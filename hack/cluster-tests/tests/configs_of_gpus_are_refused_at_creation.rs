//! With `webhook.enabled`, the API server and the plugin have the same verdict about opaque configs of GPUs: the table of
//! `gpu-api`, whose own test runs it through the plugin's decoder, goes to the API server in claims and templates.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use cluster_tests::release::CHART;
use cluster_tests::{Cluster, Namespace, wait_until};
use serde_json::value::RawValue;

const TABLE: &str = include_str!("../../../dra-shim/gpu/api/tests/configs.json");

/// Each resource, and its kind.
const RESOURCES: [(&str, &str); 2] = [
    ("resourceclaims", "ResourceClaim"),
    ("resourceclaimtemplates", "ResourceClaimTemplate"),
];

/// The limits of Kubernetes: configs of a claim, and bytes of a config.
const CONFIGS: usize = 32;
const CONFIG_LENGTH: usize = 10 * 1024;

/// A line of the table.
struct Case {
    config: String,
    gates: String,
    /// A word of the refusal's message; `None` if the config is accepted.
    about: Option<String>,
    /// Whether the policy accepts what the plugin refuses.
    policy_accepts: bool,
}

fn cases() -> Result<Vec<Case>> {
    let lines: Vec<BTreeMap<&str, &RawValue>> = serde_json::from_str(TABLE)?;
    let cases = lines.into_iter().map(|line| {
        let text = |field| {
            let text = line.get(field).map(|it| serde_json::from_str(it.get()));
            text.transpose()
        };
        let config = line.get("config").context("no config")?;
        Ok(Case {
            config: config.get().to_owned(),
            gates: text("gates")?
                .unwrap_or_else(|| "TimeSlicingSettings=true,MPSSupport=true".to_owned()),
            about: text("about")?,
            policy_accepts: line.contains_key("policy_accepts"),
        })
    });
    cases.collect()
}

/// The policies of a chart with GPUs and these feature gates, until this is dropped.
struct Policies(Cluster, String);

impl Policies {
    fn enforce(cluster: &Cluster, namespace: &Namespace, gates: &str) -> Result<Self> {
        let mut values =
            "resources.gpus.enabled=true,webhook.enabled=true,nameOverride=configs".to_owned();
        for gate in gates.split_terminator(',') {
            values = format!("{values},featureGates.{gate}");
        }
        let template = [
            "helm",
            "template",
            "configs",
            CHART,
            "--namespace=imex-dra",
            "--set",
            &values,
        ];
        let only = "--show-only=templates/validatingadmissionpolicy-configs.yaml";
        let rendered = cluster.script(&[&template[..], &[only]].concat(), "")?;
        let are_enforced = |enforced: bool| {
            wait_until(cluster, "the policies are enforced or deleted", || {
                for resource in RESOURCES {
                    let refused = refused(cluster, namespace, resource, &["{}"]);
                    ensure!(refused.is_some() == enforced, "{resource:?}: {refused:?}");
                }
                Ok(())
            })
        };
        are_enforced(false)?;
        let policies = Self(cluster.clone(), rendered);
        cluster.apply(&policies.1)?;
        are_enforced(true)?;
        Ok(policies)
    }
}

impl Drop for Policies {
    fn drop(&mut self) {
        let delete = ["kubectl", "delete", "-f", "-", "--ignore-not-found"];
        drop(self.0.script(&delete, &self.1)); // ignored: then the next test of claims fails
    }
}

/// The API server's refusal of a claim or template with these configs, or `None`. The request is text, since a value of
/// JSON has no duplicate fields.
fn refused(
    cluster: &Cluster,
    namespace: &Namespace,
    (resource, kind): (&str, &str),
    configs: &[&str],
) -> Option<String> {
    let configs = configs.iter().map(|config| {
        format!(r#"{{"opaque":{{"driver":"gpu.nvidia.com","parameters":{config}}}}}"#)
    });
    let configs = configs.collect::<Vec<_>>().join(",");
    let spec = format!(
        r#"{{"devices":{{"requests":[{{"name":"gpu","exactly":{{"deviceClassName":"gpu.nvidia.com"}}}}],"config":[{configs}]}}}}"#
    );
    let spec = if kind == "ResourceClaim" {
        spec
    } else {
        format!(r#"{{"spec":{spec}}}"#)
    };
    let object = format!(
        r#"{{"apiVersion":"resource.k8s.io/v1","kind":"{kind}","metadata":{{"name":"tried"}},"spec":{spec}}}"#
    );
    let path = format!(
        "/apis/resource.k8s.io/v1/namespaces/{}/{resource}?dryRun=All",
        namespace.name
    );
    let create = ["kubectl", "create", "--raw", &path, "-f", "-"];
    let error = cluster.script(&create, &object).err();
    error.map(|error| format!("{error:#}"))
}

// req: CHART-5, CHART-27, GPU-58
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_api_server_has_the_plugins_verdict_about_each_config() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "gpu-configs")?;
    let cases = cases()?;
    let gates: BTreeSet<&str> = cases.iter().map(|case| case.gates.as_str()).collect();
    let mut wrong = Vec::new();
    for gates in gates {
        let _policies = Policies::enforce(&cluster, &namespace, gates)?;
        let cases = || cases.iter().filter(|case| case.gates == gates);
        let right: Vec<&str> = cases()
            .filter(|it| it.about.is_none())
            .map(|it| it.config.as_str())
            .collect();
        for (number, case) in cases().enumerate() {
            // A mistake is found among as many right configs as a claim can have.
            let others = if case.about.is_some() { CONFIGS - 1 } else { 0 };
            let mut configs: Vec<_> = right
                .iter()
                .copied()
                .cycle()
                .skip(number)
                .take(others)
                .collect();
            configs.push(&case.config);
            for resource in RESOURCES {
                let refused = refused(&cluster, &namespace, resource, &configs);
                let is_right = match (&refused, &case.about) {
                    (None, about) => about.is_none() || case.policy_accepts,
                    (Some(text), Some(about)) => {
                        let message = text.split("denied request: ").last();
                        message.is_some_and(|it| it.contains(about.as_str()))
                            && !case.policy_accepts
                    }
                    (Some(_), None) => false,
                };
                if !is_right {
                    wrong.push(format!("{}, {}: {refused:?}", resource.0, case.config));
                }
            }
        }
    }
    ensure!(wrong.is_empty(), "other verdicts:\n{}", wrong.join("\n"));
    Ok(())
}

// req: CHART-27
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_largest_claim_is_checked_to_its_last_limit() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "gpu-configs")?;
    let _policies = Policies::enforce(&cluster, &namespace, "MPSSupport=true")?;
    let large = |last: &str| {
        let mut limits = String::new();
        for device in 0.. {
            let limit = format!(r#""{device}":"1Gi","#);
            if limits.len() + limit.len() > CONFIG_LENGTH - 200 {
                break;
            }
            limits.push_str(&limit);
        }
        format!(
            r#"{{"apiVersion":"resource.nvidia.com/v1beta1","kind":"GpuConfig","sharing":{{"strategy":"MPS","mpsConfig":{{"defaultPerDevicePinnedMemoryLimit":{{{limits}"last":"{last}"}}}}}}}}"#
        )
    };
    let (right, wrong) = (large("1Gi"), large("1Ki"));
    for resource in RESOURCES {
        let mut configs = [right.as_str(); CONFIGS];
        let text = refused(&cluster, &namespace, resource, &configs);
        ensure!(text.is_none(), "{text:?}");
        configs[CONFIGS - 1] = &wrong;
        let text = refused(&cluster, &namespace, resource, &configs);
        let text = text.with_context(|| format!("{resource:?} is accepted"))?;
        ensure!(text.contains("at least 1Mi"), "{text}");
    }
    Ok(())
}
