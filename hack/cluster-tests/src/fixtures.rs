//! Fixtures: `ComputeDomains`, pods that claim their channel, a broken mock driver, claims and their
//! traces on a node.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::{Value, json};

use crate::{Cluster, Namespace, output_of, program_path, wait_until};

/// The resource of `ComputeDomain`s, for kubectl. With group: kubectl caches for hours that another group had the kind.
pub const DOMAINS: &str = "computedomains.resource.nvidia.com";

/// The channel's device node in a container with a claim.
pub const CHANNEL_PATH: &str = "/dev/nvidia-caps-imex-channels/channel0";

/// The directory in which `hack/install.sh` installs the mock driver on each node.
pub const DRIVER_ROOT: &str = "/run/nvidia/driver";

/// The shell command of containers that wait for their end.
pub const SLEEP: &str = "trap 'exit 0' TERM; sleep 100000 & wait";

/// A ComputeDomain whose template has the name `<name>-channel`.
#[derive(Debug)]
pub struct TestDomain {
    name: String,
    template: String,
}

impl TestDomain {
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
        let domain = Self::apply(cluster, namespace, name, (allocation_mode, 0))?;
        wait_until(cluster, &format!("ComputeDomain {name} is Ready"), || {
            domain.is(cluster, namespace, "Ready")
        })?;
        Ok(domain)
    }

    /// Creates a domain with this `numNodes`.
    ///
    /// # Errors
    /// As [`Cluster::script`].
    pub fn create_for_nodes(
        cluster: &Cluster,
        namespace: &Namespace,
        name: &str,
        num_nodes: u32,
    ) -> Result<Self> {
        Self::apply(cluster, namespace, name, ("Single", num_nodes))
    }

    fn apply(
        cluster: &Cluster,
        namespace: &Namespace,
        name: &str,
        (allocation_mode, num_nodes): (&str, u32),
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
                "numNodes": num_nodes,
                "channel": {
                    "resourceClaimTemplate": {"name": domain.template},
                    "allocationMode": allocation_mode,
                },
            },
        });
        cluster.apply(&manifest.to_string())?;
        Ok(domain)
    }

    /// Checks its `status.status`.
    ///
    /// # Errors
    /// If it differs.
    pub fn is(&self, cluster: &Cluster, namespace: &Namespace, expected: &str) -> Result<()> {
        let of = ["get", DOMAINS, &self.name, "-n", &namespace.name];
        let status = cluster.kubectl(&[&of[..], &["-o", "jsonpath={.status.status}"]].concat())?;
        ensure!(status == expected, "its status is {status:?}");
        Ok(())
    }

    /// Deletes the domain and waits until it is deleted.
    ///
    /// # Errors
    /// If it still exists after a minute.
    pub fn delete(&self, cluster: &Cluster, namespace: &Namespace) -> Result<()> {
        let namespace = &namespace.name;
        let command = ["delete", DOMAINS, &self.name];
        let options = ["-n", namespace, "--wait", "--timeout=60s"];
        cluster
            .kubectl(&[&command[..], &options].concat())
            .map(drop)
    }
}

/// Creates a pod on `node` that sleeps. With `domain`, its container has a claim for
/// the domain's channel.
///
/// # Errors
/// As [`Cluster::script`].
pub fn create_pod(
    cluster: &Cluster,
    namespace: &Namespace,
    name: &str,
    node: u8,
    domain: Option<&TestDomain>,
) -> Result<()> {
    cluster.apply(&pod_manifest(namespace, name, Some(node), domain))
}

/// As [`create_pod`], on any node.
///
/// # Errors
/// As [`Cluster::script`].
pub fn create_pod_anywhere(
    cluster: &Cluster,
    namespace: &Namespace,
    name: &str,
    domain: &TestDomain,
) -> Result<()> {
    cluster.apply(&pod_manifest(namespace, name, None, Some(domain)))
}

/// As [`create_pod`], with a container that runs this shell command and exits.
///
/// # Errors
/// As [`Cluster::script`].
pub fn create_pod_that(
    cluster: &Cluster,
    namespace: &Namespace,
    name: &str,
    node: u8,
    domain: &TestDomain,
    command: &str,
) -> Result<()> {
    let manifest = pod_manifest(namespace, name, Some(node), Some(domain));
    let mut manifest: Value = serde_json::from_str(&manifest)?;
    let place = manifest.pointer_mut("/spec/containers/0/command/2");
    *place.context("no command")? = json!(command);
    cluster.apply(&manifest.to_string())
}

/// As [`create_pod`], with a claim from the template with this name.
///
/// # Errors
/// As [`Cluster::script`].
pub fn create_pod_of_template(
    cluster: &Cluster,
    namespace: &Namespace,
    name: &str,
    node: u8,
    template: &str,
) -> Result<()> {
    let claim = json!({"name": "channel", "resourceClaimTemplateName": template});
    cluster.apply(&manifest(namespace, name, Some(node), Some(claim)))
}

/// As [`create_pod`], and waits until the pod is running.
///
/// # Errors
/// If it is not running before the timeout; with its events.
pub fn run_pod(
    cluster: &Cluster,
    namespace: &Namespace,
    name: &str,
    node: u8,
    domain: Option<&TestDomain>,
) -> Result<()> {
    create_pod(cluster, namespace, name, node, domain)?;
    wait_until_running(cluster, namespace, name)
}

/// Creates a claim with the spec of the domain's template, which pods can share.
///
/// # Errors
/// As [`Cluster::script`].
pub fn create_claim(
    cluster: &Cluster,
    namespace: &Namespace,
    name: &str,
    domain: &TestDomain,
) -> Result<()> {
    let template = ["get", "resourceclaimtemplate", &domain.template];
    let template = cluster.json(&[&template[..], &["-n", &namespace.name]].concat())?;
    let claim = json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace.name},
        "spec": template.pointer("/spec/spec"),
    });
    cluster.apply(&claim.to_string())
}

/// As [`run_pod`], with an existing claim.
///
/// # Errors
/// If it is not running before the timeout; with its events.
pub fn run_pod_with_claim(
    cluster: &Cluster,
    namespace: &Namespace,
    name: &str,
    node: u8,
    claim: &str,
) -> Result<()> {
    create_pod_with_claim(cluster, namespace, name, node, claim)?;
    wait_until_running(cluster, namespace, name)
}

/// As [`create_pod`], with an existing claim.
///
/// # Errors
/// As [`Cluster::script`].
pub fn create_pod_with_claim(
    cluster: &Cluster,
    namespace: &Namespace,
    name: &str,
    node: u8,
    claim: &str,
) -> Result<()> {
    let claim = json!({"name": "channel", "resourceClaimName": claim});
    cluster.apply(&manifest(namespace, name, Some(node), Some(claim)))
}

fn pod_manifest(
    namespace: &Namespace,
    name: &str,
    node: Option<u8>,
    domain: Option<&TestDomain>,
) -> String {
    let channel = |domain: &TestDomain| {
        let template = &domain.template;
        json!({"name": "channel", "resourceClaimTemplateName": template})
    };
    manifest(namespace, name, node, domain.map(channel))
}

fn manifest(namespace: &Namespace, name: &str, node: Option<u8>, claim: Option<Value>) -> String {
    let node = node.map(|node| json!({"kubernetes.io/hostname": format!("node{node}")}));
    let container_claims: Vec<Value> = claim.iter().map(|_| json!({"name": "channel"})).collect();
    let claims: Vec<Value> = claim.into_iter().collect();
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace.name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "nodeSelector": node,
            "resourceClaims": claims,
            "containers": [{
                "name": "main",
                "image": "localhost/busybox:1",
                "imagePullPolicy": "Never",
                "command": ["sh", "-c", SLEEP],
                "resources": {"claims": container_claims},
            }],
        },
    })
    .to_string()
}

/// Waits until the pod is running.
///
/// # Errors
/// If it is not running before the timeout; with its events.
pub fn wait_until_running(cluster: &Cluster, namespace: &Namespace, pod: &str) -> Result<()> {
    wait_until(cluster, &format!("pod {pod} is running"), || {
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

/// Waits until the scheduler has reported that no device is free for the pod's claims.
///
/// # Errors
/// If there is no such event before the timeout; with the pod's events.
pub fn wait_until_unschedulable(cluster: &Cluster, namespace: &Namespace, pod: &str) -> Result<()> {
    wait_until(cluster, &format!("{pod} is unschedulable"), || {
        let events = cluster.events_about(&namespace.name, pod)?;
        let reported = events.iter().any(|event| {
            event.starts_with("FailedScheduling") && event.contains("cannot allocate all claims")
        });
        ensure!(reported, "its events: {events:#?}");
        Ok(())
    })
}

/// The device that the driver publishes for the node.
///
/// # Errors
/// As [`Cluster::items`], or if there is none.
pub fn published_device(cluster: &Cluster, node: u8) -> Result<Value> {
    let selector =
        format!("--field-selector=spec.driver=compute-domain.nvidia.com,spec.nodeName=node{node}");
    let slices = cluster.items(&["resourceslices", &selector])?;
    let slice = slices.first().context("no slice")?;
    let device = slice.pointer("/spec/devices/0");
    device.cloned().context("no device")
}

/// A chart value that is changed until this is dropped.
#[derive(Debug)]
pub struct ChartValue {
    cluster: Cluster,
    key: &'static str,
}

impl ChartValue {
    /// Upgrades the release and waits until its pods are ready. First waits until domains of ended tests
    /// are deleted, because the chart's preflight counts their channels.
    ///
    /// # Errors
    /// If the pods do not become ready.
    pub fn set(cluster: &Cluster, key: &'static str, value: &str) -> Result<Self> {
        wait_for_domains_of_ended_tests(cluster)?;
        let chart_value = Self {
            cluster: cluster.clone(),
            key,
        };
        chart_value.upgrade(value, false)?;
        Ok(chart_value)
    }

    /// `knowingly`: at the end of a test, `ComputeDomains` may still be deleting; their channels are unused.
    fn upgrade(&self, value: &str, knowingly: bool) -> Result<()> {
        let chart = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../deployments/helm/imex-dra"
        );
        let upgrade = ["helm", "upgrade", "imex-dra", chart, "--namespace=imex-dra"];
        let set = format!("--set={}={value}", self.key);
        let knowingly = format!("--set=guard.override={knowingly}");
        let options = [
            "--reuse-values",
            "--wait",
            "--timeout=120s",
            &set,
            &knowingly,
        ];
        self.cluster
            .script(&[&upgrade[..], &options].concat(), "")
            .map(drop)
    }
}

impl Drop for ChartValue {
    fn drop(&mut self) {
        drop(self.upgrade("", true)); // ignored: if it fails, the next test fails, too
    }
}

/// Waits until the domains of ended tests are deleted: after their pods, long before their namespaces. The next run
/// of the chart's preflight must not find them.
///
/// # Errors
/// If one still exists after the timeout.
pub fn wait_for_domains_of_ended_tests(cluster: &Cluster) -> Result<()> {
    fn name_at<'a>(objects: &'a [Value], pointer: &str) -> Vec<Option<&'a Value>> {
        objects.iter().map(|it| it.pointer(pointer)).collect()
    }
    wait_until(cluster, "the domains of ended tests are deleted", || {
        let ending = cluster.items(&["namespaces", "--field-selector=status.phase=Terminating"])?;
        let ending = name_at(&ending, "/metadata/name");
        let domains = cluster.items(&[DOMAINS, "--all-namespaces"])?;
        let mut namespaces = name_at(&domains, "/metadata/namespace").into_iter();
        let left = namespaces.find(|namespace| ending.contains(namespace));
        ensure!(left.is_none(), "one in {left:?}");
        Ok(())
    })
}

/// Breaks the mock driver of one node until this is dropped.
#[derive(Debug)]
pub struct BrokenDriver {
    node: u8,
    /// Options that the intact driver has, too.
    intact: Vec<String>,
}

impl BrokenDriver {
    /// Reinstalls the node's mock driver with these options of `hack/mock-driver.sh`, while
    /// plugin and pods keep running.
    ///
    /// # Errors
    /// If the script fails.
    pub fn install(node: u8, options: &[&str]) -> Result<Self> {
        Self::with_intact(node, Vec::new(), options)
    }

    /// Like [`install`](Self::install), for driver-managed IMEX: the driver root has the stand-in for `nvidia-imex`.
    ///
    /// # Errors
    /// If the script fails.
    pub fn install_with_imex(node: u8, options: &[&str]) -> Result<Self> {
        Self::with_intact(node, imex_programs()?, options)
    }

    fn with_intact(node: u8, intact: Vec<String>, options: &[&str]) -> Result<Self> {
        let broken = Self { node, intact };
        broken.install_mock_driver(options)?;
        Ok(broken)
    }

    /// Reinstalls the intact mock driver.
    ///
    /// # Errors
    /// If the script fails.
    pub fn repair(&self) -> Result<()> {
        self.install_mock_driver(&[])
    }

    fn install_mock_driver(&self, options: &[&str]) -> Result<()> {
        let intact = self.intact.iter().map(String::as_str);
        let options: Vec<_> = intact.chain(options.iter().copied()).collect();
        lay_out_host(self.node, &options)
    }
}

impl Drop for BrokenDriver {
    fn drop(&mut self) {
        drop(self.repair()); // ignored: if it fails, the next test fails, too
    }
}

/// Starts `nvidia-imex` on the hosts of both nodes, as for host-managed IMEX, or stops it there and leaves its programs
/// in the driver root.
///
/// # Errors
/// If the script fails.
pub fn let_hosts_run_imex(is_run: bool) -> Result<()> {
    let programs = if is_run { Vec::new() } else { imex_programs()? };
    let options: Vec<_> = programs.iter().map(String::as_str).collect();
    [1, 2]
        .iter()
        .try_for_each(|node| lay_out_host(*node, &options))
}

/// Gives the node's mock driver this mock of CUDA, until the driver is laid out again.
///
/// # Errors
/// If the script fails.
pub fn install_cuda(node: u8, library: &Path) -> Result<()> {
    let library = library.to_str().context("not UTF-8")?;
    lay_out_host(node, &["--cuda", library])
}

fn lay_out_host(node: u8, options: &[&str]) -> Result<()> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../mock-node.sh");
    let mut command = Command::new(script);
    let command = command.arg(node.to_string()).args(options);
    output_of(command, "").map(drop)
}

fn imex_programs() -> Result<Vec<String>> {
    Ok(vec!["--imex-programs".to_owned(), program_path("")?])
}

/// The major number of IMEX channels in the file that replaces `/proc/devices` on the node.
///
/// # Errors
/// If the file has no such line.
pub fn mock_major(cluster: &Cluster, node: u8) -> Result<u32> {
    let text = cluster.on_node(node, &format!("cat {DRIVER_ROOT}/proc/devices"))?;
    text.lines()
        .find_map(|line| line.trim().strip_suffix(" nvidia-caps-imex-channels"))
        .context("the mock's /proc/devices has no line for IMEX channels")?
        .parse()
        .context("the mock's major is not a number")
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

/// The UID of the only claim in the namespace.
///
/// # Errors
/// If there is none, or more than one.
pub fn only_claim_uid(cluster: &Cluster, namespace: &Namespace) -> Result<String> {
    let [claim] = <[String; 1]>::try_from(claim_uids(cluster, namespace)?)
        .map_err(|claims| anyhow!("one pod must have one claim, not {claims:?}"))?;
    Ok(claim)
}

/// A claim's remains on the node: the names of its CDI files, and the checkpoint's path if
/// the checkpoint mentions it. Empty if there are none.
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
