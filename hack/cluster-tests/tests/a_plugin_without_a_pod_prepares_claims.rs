//! The plugin as a host service (`dra-shim/compute-domain/compute-domain-kubelet-plugin.service`) with kubelet's
//! kubeconfig: a process on node 1, started as in the unit. It takes over from the plugin's pod, gives pods their
//! channels, recovers from SIGKILL, and the pod takes over again. It also works with a token of the plugin's account
//! that is bound to the node.

use std::fs;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use cluster_tests::fixtures::{self, CHANNEL_PATH, ChartValue, TestDomain};
use cluster_tests::node_pod::{NAMESPACE, NodePod};
use cluster_tests::permissions::{DRIVER, plugin_token};
use cluster_tests::{Cluster, Namespace, program_path, wait_until};
use serde_json::Value;

const NODE: u8 = 1;
const UNIT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../dra-shim/compute-domain/compute-domain-kubelet-plugin.service"
);
/// In the node's private /run.
const PID: &str = "/run/host-service.pid";
const LOG: &str = "/run/host-service.log";
/// Credentials of the plugin's account.
const KUBECONFIG: &str = "/run/host-service.kubeconfig";
const TOKEN: &str = "/run/host-service.token";

/// The path of kubelet's own kubeconfig, for a shell on the node.
fn of_kubelet() -> String {
    format!("$(dirname $KUBECONFIG)/kubelet-{NODE}-certificate")
}

/// The service on node 1, started by this test instead of systemd.
struct Service {
    cluster: Cluster,
    /// The shell command to run on the node.
    command: String,
    settings: String,
    child: Option<Child>,
}

/// The values of a key of the unit, in order.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    let value = |line: &'a str| line.strip_prefix(key)?.strip_prefix('=');
    unit.lines().filter_map(value).collect()
}

impl Service {
    /// Installs it as in `docs/host-service.md`: program, unit, settings.
    fn install(cluster: &Cluster, kubeconfig: &str) -> Result<Self> {
        let unit = fs::read_to_string(UNIT)?;
        let one = |key: &str| -> Result<&str> {
            let values = values(&unit, key);
            ensure!(values.len() == 1, "the unit's {key} is {values:?}");
            values.first().copied().context("no value")
        };
        let host_name = cluster.on_node(NODE, "uname -n")?;
        let environment = values(&unit, "Environment").join(" ");
        let environment = environment.replace("%H", host_name.trim());
        ensure!(!environment.contains('%'), "{environment}");
        let settings = one("EnvironmentFile")?.trim_start_matches('-').to_owned();
        let program = one("ExecStart")?;
        // Applies those restrictions of the unit that a shell can. Its mounts end with it.
        ensure!(one("CapabilityBoundingSet")?.is_empty() && one("ProtectSystem")? == "full");
        ensure!(one("NoNewPrivileges")? == "yes");
        let built = program_path("compute-domain-kubelet-plugin")?;
        let command = format!(
            "mount -t tmpfs tmpfs $(dirname {program}) && : >{program} && mount --bind {built} {program} && \
             for it in /usr /etc; do mount --rbind $it $it && mount -o remount,bind,ro $it || exit; done && \
             exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs \
             env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin {environment} $(cat {settings}) {program} >>{LOG} 2>&1"
        );
        // The other settings are those of the chart's release in hack/install.sh.
        let write = format!(
            "mkdir -p $(dirname {settings}) && rm -f {LOG} && printf '%s\\n' KUBECONFIG={kubeconfig} \
             ALT_PROC_DEVICES_PATH={}/proc/devices V=4 >{settings}",
            fixtures::DRIVER_ROOT
        );
        cluster.on_node(NODE, &write)?;
        Ok(Self {
            cluster: cluster.clone(),
            command,
            settings,
            child: None,
        })
    }

    fn start(&mut self) -> Result<()> {
        let own_mounts = [
            "unshare",
            "--mount",
            "--propagation",
            "slave",
            "sh",
            "-c",
            &self.command,
        ];
        let node = NODE.to_string();
        let shell = "echo $$ >\"$0\" && exec \"$@\"";
        let child = Command::new(self.cluster.script_path())
            .args(["exec", "--node", &node, "sh", "-c", shell, PID])
            .args(own_mounts)
            .stdin(Stdio::null())
            .spawn()?;
        self.child = Some(child);
        Ok(())
    }

    /// Sends a signal to the plugin and waits for its end.
    fn end(&mut self, signal: &str) -> Result<()> {
        let mut child = self.child.take().context("it does not run")?;
        let kill = format!("kill -{signal} $(cat {PID})");
        self.cluster.on_node(NODE, &kill)?;
        wait_until(&self.cluster, "the plugin's process has ended", || {
            child.try_wait()?.context("it runs").map(drop)
        })
    }

    fn log(&self) -> Result<String> {
        self.cluster.on_node(NODE, &format!("cat {LOG}"))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if self.child.is_some() {
            drop(self.end("KILL")); // ignored: the process ends with the cluster
        }
        let settings = &self.settings;
        let remove = format!("rm -f {settings} {KUBECONFIG} {TOKEN}");
        drop(self.cluster.on_node(NODE, &remove)); // ignored: so do the files
    }
}

fn has_channel(cluster: &Cluster, namespace: &Namespace, pod: &str) -> Result<()> {
    let look = format!("test -c {CHANNEL_PATH}");
    let (found, text) = cluster.in_pod(&namespace.name, pod, &look)?;
    ensure!(found, "{pod} has no channel: {text}");
    Ok(())
}

/// The pod's claim, once the previous pod's claim is deleted.
fn claim_uid(cluster: &Cluster, namespace: &Namespace) -> Result<String> {
    wait_until(cluster, "there is one claim", || {
        fixtures::only_claim_uid(cluster, namespace)
    })
}

/// Deletes the pod and checks that nothing of its claim is left; the next pod gets the device.
fn next_pod(
    cluster: &Cluster,
    namespace: &Namespace,
    domain: &TestDomain,
    (old, new): (&str, &str),
) -> Result<()> {
    let claim = claim_uid(cluster, namespace)?;
    cluster.kubectl(&["delete", "pod", old, "-n", &namespace.name, "--wait"])?;
    fixtures::run_pod(cluster, namespace, new, NODE, Some(domain))?;
    has_channel(cluster, namespace, new)?;
    let traces = fixtures::traces_on_node(cluster, NODE, &claim)?;
    ensure!(
        traces.is_empty(),
        "{old}'s claim is still prepared: {traces}"
    );
    Ok(())
}

fn wait_until_pods_are_gone(cluster: &Cluster) -> Result<()> {
    wait_until(cluster, "the plugin's pods are deleted", || {
        let selector = "imex-dra-component=kubelet-plugin";
        let pods = cluster.items(&["pods", "-n", NAMESPACE, "-l", selector])?;
        ensure!(pods.is_empty(), "there are {}", pods.len());
        Ok(())
    })
}

fn wait_until_reported(cluster: &Cluster, namespace: &Namespace) -> Result<()> {
    wait_until(cluster, "the claim's status has the device", || {
        let claims = cluster.items(&["resourceclaims", "-n", &namespace.name])?;
        let claim = claims.first().context("no claim")?;
        let pool = claim.pointer("/status/devices/0/pool");
        ensure!(
            pool.is_some_and(|pool| pool == "node1"),
            "{:?}",
            claim.pointer("/status")
        );
        Ok(())
    })
}

// req: CHART-18
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn it_takes_over_recovers_from_a_kill_and_hands_back_to_the_pod() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "without-a-pod")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    fixtures::run_pod(&cluster, &namespace, "of-pod", NODE, Some(&domain))?;

    let chart = ChartValue::set(&cluster, "kubeletPlugin.hostService.enabled", "true")?;
    let mut service = Service::install(&cluster, &of_kubelet())?;
    wait_until_pods_are_gone(&cluster)?;
    service.start()?;
    next_pod(&cluster, &namespace, &domain, ("of-pod", "of-service"))?;
    wait_until_reported(&cluster, &namespace)?;

    service.end("KILL")?;
    service.start()?;
    let claim = claim_uid(&cluster, &namespace)?;
    wait_until(&cluster, "the plugin has restarted", || {
        let starts = service
            .log()?
            .matches("compute-domain-kubelet-plugin starts")
            .count();
        ensure!(starts == 2, "{starts} starts");
        Ok(())
    })?;
    let traces = fixtures::traces_on_node(&cluster, NODE, &claim)?;
    ensure!(traces.lines().count() == 2, "of the claim: {traces:?}");
    has_channel(&cluster, &namespace, "of-service")?;
    next_pod(&cluster, &namespace, &domain, ("of-service", "of-second"))?;
    let log = service.log()?;
    ensure!(!log.contains("forbidden"), "it lacks a permission: {log}");

    // The pod takes over while the service still runs.
    drop(chart);
    wait_until(&cluster, "the plugin's pod is ready", || {
        let is_ready = NodePod::plugin(&cluster, NODE)?.is_ready()?;
        ensure!(is_ready, "not yet");
        Ok(())
    })?;
    service.end("TERM")?;
    let log = service.log()?;
    ensure!(log.trim_end().ends_with("shutdown"), "its log: {log}");
    has_channel(&cluster, &namespace, "of-second")?;
    next_pod(&cluster, &namespace, &domain, ("of-second", "of-pod-again"))?;
    cluster.kubectl(&["delete", "pod", "of-pod-again", "-n", &namespace.name])?;
    domain.delete(&cluster, &namespace)
}

/// The node's own slice, by its UID.
fn slice_uid(cluster: &Cluster) -> Result<String> {
    let ours = format!("--field-selector=spec.driver={DRIVER},spec.nodeName=node{NODE}");
    let slices = cluster.items(&["resourceslices", &ours])?;
    let slice = slices.first().context("no slice")?;
    let uid = slice.pointer("/metadata/uid").and_then(Value::as_str);
    Ok(uid.context("no UID")?.to_owned())
}

// req: CHART-18
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn with_a_token_of_its_node_it_publishes_prepares_and_reports() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "with-a-token")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    let identity = "kubeletPlugin.hostService.identity";
    let identity = ChartValue::set(&cluster, identity, "serviceAccount")?;
    let chart = ChartValue::set(&cluster, "kubeletPlugin.hostService.enabled", "true")?;
    let mut service = Service::install(&cluster, KUBECONFIG)?;
    let token = plugin_token(&cluster, &format!("node{NODE}"))?;
    let write = format!(
        "umask 077 && echo {token} >{TOKEN} && \
         sed 's|token: [^}}]*|tokenFile: {TOKEN}|' $(dirname $KUBECONFIG)/kubelet-{NODE} >{KUBECONFIG} && \
         grep -q tokenFile {KUBECONFIG}"
    );
    cluster.on_node(NODE, &write)?;
    wait_until_pods_are_gone(&cluster)?;

    service.start()?;
    fixtures::run_pod(&cluster, &namespace, "of-service", NODE, Some(&domain))?;
    has_channel(&cluster, &namespace, "of-service")?;
    wait_until_reported(&cluster, &namespace)?;
    let slice = slice_uid(&cluster)?;
    let selector = format!("--field-selector=spec.nodeName=node{NODE}");
    cluster.kubectl(&["delete", "resourceslices", &selector])?;
    wait_until(&cluster, "it has published its device again", || {
        ensure!(slice_uid(&cluster)? != slice, "it is not deleted");
        Ok(())
    })?;
    next_pod(&cluster, &namespace, &domain, ("of-service", "of-second"))?;
    let log = service.log()?;
    ensure!(!log.contains("forbidden"), "it lacks a permission: {log}");
    service.end("TERM")?;
    drop((chart, identity));
    cluster.kubectl(&["delete", "pod", "of-second", "-n", &namespace.name])?;
    domain.delete(&cluster, &namespace)
}
