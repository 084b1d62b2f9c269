//! `cdi-gen doctor` on a node with a prepared claim finds it healthy, on the node and from another
//! mount namespace. If one thing is broken, that is the first finding.

use anyhow::{Context as _, Result, ensure};
use cluster_tests::fixtures::{self, TestDomain};
use cluster_tests::{Cluster, Namespace, program_path, wait_until};
use serde_json::Value;

const NODE: u8 = 1;

/// As many lines as a screen has.
const SCREEN: usize = 24;

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_node_with_a_claim_is_healthy_and_without_the_claims_spec_it_is_not() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "doctor")?;
    let domain = TestDomain::create(&cluster, &namespace, "train-a", "Single")?;
    fixtures::run_pod(&cluster, &namespace, "worker", NODE, Some(&domain))?;
    let claim = fixtures::only_claim_uid(&cluster, &namespace)?;

    // What earlier tests had prepared may still be going.
    let text = wait_until(&cluster, "doctor finds the node healthy", || {
        let text = cluster.on_node(NODE, &format!("{} doctor 2>&1", program()?))?;
        ensure!(text.ends_with("\nhealthy\n"), "it says: {text}");
        Ok(text)
    })?;
    ensure!(text.lines().count() <= SCREEN, "it is too long: {text}");
    for seen in ["containerd 2.", "sees the same directories", " running"] {
        ensure!(text.contains(seen), "it does not mention {seen:?}: {text}");
    }

    // The plugin may write the spec again before doctor reads the directory.
    let without_spec = format!(
        "spec=$(echo /var/run/cdi/*-claim_{claim}.*); mv $spec /run/aside
        $doctor; code=$?
        mv /run/aside $spec; exit $code"
    );
    let report = wait_until(&cluster, "doctor reads before the plugin repairs", || {
        broken(&cluster, &without_spec)
    })?;
    let first = first(&report)?;
    ensure!(
        first.0 == "claim-without-spec" && first.1.contains(&claim),
        "without the claim's spec it says {report:#}"
    );
    cluster
        .on_node(NODE, &format!("{} doctor", program()?))
        .map(drop)
}

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_mount_that_containerd_does_not_see_is_named_first() -> Result<()> {
    let cluster = Cluster::connect()?;
    let report = broken(
        &cluster,
        "exec unshare --mount --propagation private \
         sh -c 'mount -t tmpfs -o mode=755 tmpfs /run/cdi; $doctor'",
    )?;
    let (id, subject) = first(&report)?;
    ensure!(
        id == "cdi-directory-other-mount" && subject == "/var/run/cdi",
        "with another mount than containerd's it says {report:#}"
    );
    Ok(())
}

/// As from a debug pod, which has the host's files at /host.
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_same_node_is_as_healthy_from_another_mount_namespace() -> Result<()> {
    let cluster = Cluster::connect()?;
    let of_node = cluster.on_node(NODE, "cat /run/nvidia-imex.pid")?;
    let root = format!("/proc/{}/root", of_node.trim());
    let text = cluster.script(&["exec", &program()?, "doctor", "--root", &root], "")?;
    ensure!(
        text.ends_with("\nhealthy\n") && text.contains("sees the same directories"),
        "from outside it says: {text}"
    );
    Ok(())
}

/// The report of `$doctor` in a script that breaks the node and repairs it.
fn broken(cluster: &Cluster, script: &str) -> Result<Value> {
    let doctor = format!("export doctor='{} doctor --json'", program()?);
    let output = cluster.on_node(NODE, &format!("{doctor}; ({script}); echo exit=$?"))?;
    let (report, code) = output.rsplit_once("exit=").context("no exit code")?;
    ensure!(code.trim() == "1", "it ended with {code}: {report}");
    Ok(serde_json::from_str(report)?)
}

/// Id and subject of the first finding.
fn first(report: &Value) -> Result<(String, String)> {
    let text = |name: &str| {
        let text = report.pointer(&format!("/findings/0/{name}"));
        text.and_then(Value::as_str).map(str::to_owned)
    };
    text("id")
        .zip(text("subject"))
        .with_context(|| format!("no finding in {report:#}"))
}

/// The nodes share the machine's file system.
fn program() -> Result<String> {
    program_path("cdi-gen")
}
