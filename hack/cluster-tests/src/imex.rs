//! The objects that the tests make: domains, and pods that claim their channel.

use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::{Cluster, Namespace, eventually};

/// Where a claim's pod finds its channel.
pub const CHANNEL: &str = "/dev/nvidia-caps-imex-channels/channel0";

/// Where `hack/install.sh` lays out each node's mock driver.
pub const DRIVER_ROOT: &str = "/run/nvidia/driver";

/// A `ComputeDomain` and the template it asks for (`<name>-channel`).
#[derive(Debug)]
pub struct Domain {
    /// Its name.
    pub name: String,
    /// Its template's name.
    pub template: String,
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
            if status == "Ready" {
                Ok(())
            } else {
                bail!("its status is {status:?}")
            }
        })?;
        Ok(domain)
    }
}

/// A pod on `node` that sleeps; with `template`, its container has the claim.
pub fn channel_pod(
    namespace: &Namespace,
    name: &str,
    node: &str,
    template: Option<&str>,
) -> String {
    let mut container = json!({
        "name": "main",
        "image": "localhost/busybox:1",
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait"],
    });
    let mut spec = json!({
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "nodeSelector": {"kubernetes.io/hostname": node},
    });
    if let (Some(template), Some(container), Some(spec)) =
        (template, container.as_object_mut(), spec.as_object_mut())
    {
        container.insert(
            "resources".to_owned(),
            json!({"claims": [{"name": "channel"}]}),
        );
        spec.insert(
            "resourceClaims".to_owned(),
            json!([{"name": "channel", "resourceClaimTemplateName": template}]),
        );
    }
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("containers".to_owned(), json!([container]));
    }
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace.name},
        "spec": spec,
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
        if phase == "Running" {
            return Ok(());
        }
        bail!(
            "its phase is {phase:?}; {:?}",
            cluster.events_about(&namespace.name, pod)?
        )
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
