//! Driver-managed IMEX: a pod waits until its node's `nvidia-imex` is ready, and an event says why. On a node
//! without a clique, pods do not wait.

use anyhow::{Context as _, Result, ensure};
use cluster_tests::cliques::{CLIQUE, OTHER_CLIQUE};
use cluster_tests::fixtures::{self, BrokenDriver, DOMAINS, TestDomain};
use cluster_tests::node_pod::NodePod;
use cluster_tests::{Cluster, Namespace, channels, imex_members, wait_until};
use serde_json::{Value, json};

const NODE: u8 = 2;

// req: DAEMON-6, MODE-17, NODE-46
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_pod_waits_while_another_nvidia_imex_has_the_session() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "in-use")?;
    imex_members::wait_until_ready(&cluster)?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    let driver = BrokenDriver::install_with_imex(NODE, &["--imex-fault", "IN_USE=1"])?;
    let daemon = NodePod::imex_daemon(&cluster, NODE)?.replace(NODE)?;
    wait_until(
        &cluster,
        "the daemon reports which process has the session",
        || {
            let events = cluster.events_about("imex-dra", &daemon.name)?;
            let has_event = events.iter().any(|it| it.starts_with("ImexSessionInUse: "));
            ensure!(has_event, "its events: {events:#?}");
            Ok(())
        },
    )?;

    fixtures::create_pod(&cluster, &namespace, "worker", NODE, Some(&domain))?;
    wait_until(&cluster, "the pod has an event with the reason", || {
        let events = cluster.events_about(&namespace.name, "worker")?;
        let mut waits = events.iter().filter(|it| it.starts_with("PrepareWaits: "));
        let has_event = waits.any(|it| it.contains("NV_ERR_IN_USE"));
        ensure!(has_event, "its events: {events:#?}");
        let domain = cluster.json(&["get", DOMAINS, "train", "-n", &namespace.name])?;
        let status = domain.pointer("/status/nodes/0/status");
        ensure!(status == Some(&json!("NotReady")), "{domain:#}");
        Ok(())
    })?;

    driver.repair()?;
    fixtures::wait_until_running(&cluster, &namespace, "worker")
}

// req: DAEMON-11
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_pod_waits_if_the_driver_does_not_support_host_names_and_the_node_reports_both_versions()
-> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "too-old")?;
    imex_members::wait_until_ready(&cluster)?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    let driver = BrokenDriver::install_with_imex(NODE, &["--driver-version", "550.163.01"])?;
    NodePod::imex_daemon(&cluster, NODE)?.replace(NODE)?;
    let names_both = |it: &String| it.contains("550.163.01") && it.contains("570.158.01");
    wait_until(&cluster, "the node has an event", || {
        let events = cluster.events_about("default", "node2")?;
        let mut matching = events
            .iter()
            .filter(|it| it.starts_with("ImexDriverTooOld: "));
        ensure!(matching.any(names_both), "its events: {events:#?}");
        Ok(())
    })?;

    fixtures::create_pod(&cluster, &namespace, "worker", NODE, Some(&domain))?;
    wait_until(&cluster, "the pod has an event with the reason", || {
        let events = cluster.events_about(&namespace.name, "worker")?;
        let mut matching = events
            .iter()
            .filter(|it| it.contains("imex-daemon-driver-too-old: "));
        ensure!(matching.any(names_both), "its events: {events:#?}");
        Ok(())
    })?;

    driver.repair()?;
    fixtures::wait_until_running(&cluster, &namespace, "worker")
}

// req: MODE-18
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_daemons_state_from_before_a_reboot_is_ignored() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "rebooted")?;
    imex_members::wait_until_ready(&cluster)?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    let daemon = NodePod::imex_daemon(&cluster, NODE)?;
    // As after a reboot, before the daemon has written its state; its nvidia-imex answers meanwhile.
    let stopped = Stopped::stop(&cluster, &daemon.container_id()?)?;
    let rename = "boot=$(cat /proc/sys/kernel/random/boot_id); cd /run/imex-dra/imexd && \
        sed \"s/$boot/00000000-0000-0000-0000-000000000000/\" state.json >state.new && \
        ! cmp -s state.json state.new && mv state.new state.json";
    cluster.on_node(NODE, rename)?;

    fixtures::create_pod(&cluster, &namespace, "worker", NODE, Some(&domain))?;
    wait_until(&cluster, "the pod has an event with the reason", || {
        let events = cluster.events_about(&namespace.name, "worker")?;
        let has_event = events
            .iter()
            .any(|it| it.contains("is from an earlier boot"));
        ensure!(has_event, "its events: {events:#?}");
        Ok(())
    })?;
    drop(stopped);
    fixtures::wait_until_running(&cluster, &namespace, "worker")
}

/// The daemon of [`NODE`], stopped until this is dropped.
struct Stopped<'a> {
    cluster: &'a Cluster,
    process: String,
}

impl<'a> Stopped<'a> {
    fn stop(cluster: &'a Cluster, container: &str) -> Result<Self> {
        let find = format!("ctr -n k8s.io task list | awk '$1 == \"{container}\" {{print $2}}'");
        let process = cluster.on_node(NODE, &find)?.trim().to_owned();
        let stopped = Self { cluster, process };
        stopped.signal("STOP")?;
        Ok(stopped)
    }

    fn signal(&self, signal: &str) -> Result<()> {
        let kill = format!("kill -{signal} {}", self.process);
        self.cluster.on_node(NODE, &kill).map(drop)
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        // Ignored, so that the test's own failure is reported.
        let _ = self.signal("CONT");
    }
}

// req: DAEMON-1, MODE-20
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_pod_on_a_node_without_a_clique_runs_without_a_channel_and_its_claim_has_an_event() -> Result<()>
{
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "no-clique")?;
    imex_members::wait_until_ready(&cluster)?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    let driver = BrokenDriver::install_with_imex(NODE, &["--state", "not-supported"])?;
    let now = reread(&cluster)?;
    wait_until(&cluster, "the daemon is ready without nvidia-imex", || {
        ensure!(now.is_ready()?, "not ready");
        Ok(())
    })?;
    fixtures::run_pod(&cluster, &namespace, "worker", NODE, Some(&domain))?;
    let look = format!("ls {}", channels::CHANNELS);
    let (found, text) = cluster.in_pod(&namespace.name, "worker", &look)?;
    ensure!(!found, "it has {text}");
    let claims = cluster.items(&["resourceclaims", "-n", &namespace.name])?;
    let claim = claims.first().and_then(|it| it.pointer("/metadata/name"));
    let claim = claim.and_then(Value::as_str).context("no claim")?;
    wait_until(&cluster, "its claim has an event", || {
        let events = cluster.events_about(&namespace.name, claim)?;
        let has_event = events.iter().any(|it| it.starts_with("NoIMEXChannel: "));
        ensure!(has_event, "its events: {events:#?}");
        Ok(())
    })?;

    driver.repair()?;
    reread(&cluster)?;
    imex_members::wait_until_ready(&cluster).map(drop)
}

// req: DAEMON-1
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_node_that_changes_its_clique_is_a_member_there_and_gets_its_index_back_later() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "moved")?;
    let before = imex_members::wait_until_ready(&cluster)?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    let driver = BrokenDriver::install_with_imex(NODE, &["--clique", OTHER_CLIQUE])?;
    reread(&cluster)?;
    wait_until(&cluster, "node2 is a member of the other clique", || {
        let members = imex_members::of(&cluster, OTHER_CLIQUE)?;
        let names: Vec<_> = members.iter().map(|it| &*it.node).collect();
        ensure!(names == ["node2"], "{members:?}");
        ensure!(members.iter().all(|it| it.is_ready), "{members:?}");
        let left = imex_members::of(&cluster, CLIQUE)?;
        let is_gone = |it: &imex_members::Member| it.node == "node2" && it.is_ready;
        ensure!(!left.iter().any(is_gone), "{left:?}");
        Ok(())
    })?;
    fixtures::run_pod(&cluster, &namespace, "there", NODE, Some(&domain))?;
    wait_until(&cluster, "the domain has its node's clique", || {
        let domain = cluster.json(&["get", DOMAINS, "train", "-n", &namespace.name])?;
        let clique = domain.pointer("/status/nodes/0/cliqueID");
        let clique = clique.and_then(Value::as_str);
        ensure!(clique == Some(OTHER_CLIQUE), "{domain:#}");
        Ok(())
    })?;
    cluster.kubectl(&["delete", "pod", "there", "-n", &namespace.name, "--wait"])?;

    driver.repair()?;
    reread(&cluster)?;
    let after = imex_members::wait_until_ready(&cluster)?;
    let place = |members: &[imex_members::Member]| -> Vec<_> {
        members.iter().map(|it| it.index).collect()
    };
    ensure!(place(&before) == place(&after), "{before:?}, {after:?}");
    Ok(())
}

/// Restarts the programs: they read the clique when they start, but otherwise again only after minutes.
fn reread(cluster: &Cluster) -> Result<NodePod> {
    NodePod::plugin(cluster, NODE)?.replace(NODE)?;
    NodePod::imex_daemon(cluster, NODE)?.replace(NODE)
}
