//! The objects that the tests make: domains, and pods that claim their channel.

use std::process::Command;

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::{Value, json};

use crate::{Cluster, Namespace, eventually};

/// Where a claim's pod finds its channel.
pub const CHANNEL: &str = "/dev/nvidia-caps-imex-channels/channel0";

/// Where `hack/install.sh` lays out each node's mock driver.
pub const DRIVER_ROOT: &str = "/run/nvidia/driver";

/// A `ComputeDomain` and the template it asks for (`<name>-channel`).
#[derive(Debug)]
pub struct Domain {
    name: String,
    template: String,
}

impl Domain {
    /// Creates the domain with `allocation_mode` and waits until it is Ready.
    ///
    /// # Errors
    /// If it is never Ready.
    pub fn create(
        cluster: &Cluster,
        namespace: &Namespace,
        name: &str,
        allocation_mode: &str,
    ) -> Result<Self> {
        let domain = Self {
            name: name.to_owned(),
            template: format!("{name}-channel"),
        };
        let manifest = json!({
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "ComputeDomain",
            "metadata": {"name": name, "namespace": namespace.name},
            "spec": {
                "numNodes": 0,
                "channel": {
                    "resourceClaimTemplate": {"name": domain.template},
                    "allocationMode": allocation_mode,
                },
            },
        });
        cluster.apply(&manifest.to_string())?;
        eventually(cluster, &format!("ComputeDomain {name} is Ready"), || {
            let status = cluster.kubectl(&[
                "get",
                "computedomain",
                name,
                "-n",
                &namespace.name,
                "-o",
                "jsonpath={.status.status}",
            ])?;
            ensure!(status == "Ready", "its status is {status:?}");
            Ok(())
        })?;
        Ok(domain)
    }

    /// Deletes the domain and waits until it is gone.
    ///
    /// # Errors
    /// If it is still there after a minute.
    pub fn delete(&self, cluster: &Cluster, namespace: &Namespace) -> Result<()> {
        let delete = ["delete", "computedomain", &self.name, "--wait"];
        let more = ["--timeout=60s", "-n", &namespace.name];
        cluster.kubectl(&[&delete[..], &more].concat()).map(drop)
    }
}

/// Makes a pod on `node` that sleeps; with `domain`, its container has a claim of
/// the domain's channel.
///
/// # Errors
/// As [`Cluster::script`].
pub fn create_pod(
    cluster: &Cluster,
    namespace: &Namespace,
    name: &str,
    node: u8,
    domain: Option<&Domain>,
) -> Result<()> {
    cluster.apply(&pod_manifest(namespace, name, node, domain))
}

/// As [`create_pod`], and waits until the pod runs.
///
/// # Errors
/// If it never does; with its events.
pub fn run_pod(
    cluster: &Cluster,
    namespace: &Namespace,
    name: &str,
    node: u8,
    domain: Option<&Domain>,
) -> Result<()> {
    create_pod(cluster, namespace, name, node, domain)?;
    until_running(cluster, namespace, name)
}

fn pod_manifest(namespace: &Namespace, name: &str, node: u8, domain: Option<&Domain>) -> String {
    let channel = |domain: &Domain| {
        let template = &domain.template;
        json!({"name": "channel", "resourceClaimTemplateName": template})
    };
    let claims: Vec<Value> = domain.into_iter().map(channel).collect();
    let used: Vec<Value> = domain.iter().map(|_| json!({"name": "channel"})).collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace.name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "nodeSelector": {"kubernetes.io/hostname": format!("node{node}")},
            "resourceClaims": claims,
            "containers": [{
                "name": "main",
                "image": "localhost/busybox:1",
                "imagePullPolicy": "Never",
                "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait"],
                "resources": {"claims": used},
            }],
        },
    })
    .to_string()
}

/// Waits until the pod runs.
///
/// # Errors
/// If it never does; with its events.
pub fn until_running(cluster: &Cluster, namespace: &Namespace, pod: &str) -> Result<()> {
    eventually(cluster, &format!("pod {pod} runs"), || {
        let phase = cluster.kubectl(&[
            "get",
            "pod",
            pod,
            "-n",
            &namespace.name,
            "-o",
            "jsonpath={.status.phase}",
        ])?;
        ensure!(
            phase == "Running",
            "its phase is {phase:?}; {:?}",
            cluster.events_about(&namespace.name, pod)?
        );
        Ok(())
    })
}

/// The mock driver of one node, broken; dropped, it is whole again.
#[derive(Debug)]
pub struct BrokenDriver {
    node: u8,
}

impl BrokenDriver {
    /// Lays the node's mock driver out anew with `options` of
    /// `hack/mock-driver.sh`, under whatever runs there.
    ///
    /// # Errors
    /// If the script fails.
    pub fn with(node: u8, options: &[&str]) -> Result<Self> {
        mock_node(node, options)?;
        Ok(Self { node })
    }

    /// Makes it whole.
    ///
    /// # Errors
    /// If the script fails.
    pub fn repair(&self) -> Result<()> {
        mock_node(self.node, &[])
    }
}

impl Drop for BrokenDriver {
    fn drop(&mut self) {
        drop(self.repair()); // the next test says what is wrong
    }
}

fn mock_node(node: u8, options: &[&str]) -> Result<()> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../mock-node.sh");
    let output = Command::new(script)
        .arg(node.to_string())
        .args(options)
        .output()?;
    ensure!(
        output.status.success(),
        "mock-node.sh failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// The major number that the node's stand-in for `/proc/devices` gives IMEX channels.
///
/// # Errors
/// If the file has no such line.
pub fn mock_major(cluster: &Cluster, node: u8) -> Result<u32> {
    let text = cluster.on_node(node, &format!("cat {DRIVER_ROOT}/proc-devices"))?;
    text.lines()
        .find_map(|line| line.trim().strip_suffix(" nvidia-caps-imex-channels"))
        .context("the mock's proc-devices names no IMEX channels")?
        .parse()
        .context("the mock's major is no number")
}

/// The UIDs of the namespace's claims.
///
/// # Errors
/// As [`Cluster::items`].
pub fn claim_uids(cluster: &Cluster, namespace: &Namespace) -> Result<Vec<String>> {
    let claims = cluster.items(&["resourceclaims", "-n", &namespace.name])?;
    Ok(claims
        .iter()
        .filter_map(|claim| {
            claim
                .pointer("/metadata/uid")
                .and_then(Value::as_str)
                .map(str::to_owned)
        })
        .collect())
}

/// The UID of the namespace's one claim.
///
/// # Errors
/// If there is none, or more than one.
pub fn only_claim(cluster: &Cluster, namespace: &Namespace) -> Result<String> {
    let [claim] = <[String; 1]>::try_from(claim_uids(cluster, namespace)?)
        .map_err(|claims| anyhow!("one pod, so one claim, not {claims:?}"))?;
    Ok(claim)
}

/// What node `node` still keeps of the claim: names of CDI files and whether the
/// checkpoint speaks of it. Empty when nothing is left.
///
/// # Errors
/// As [`Cluster::on_node`].
pub fn traces_on_node(cluster: &Cluster, node: u8, claim_uid: &str) -> Result<String> {
    cluster.on_node(
        node,
        &format!(
            "ls /var/run/cdi | grep {claim_uid}; \
             grep -l {claim_uid} /var/lib/kubelet/plugins/compute-domain.nvidia.com/checkpoint.json; true"
        ),
    )
}
