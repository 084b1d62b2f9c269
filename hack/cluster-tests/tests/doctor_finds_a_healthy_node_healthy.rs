//! `cdi-gen doctor` finds a node with a prepared claim healthy, on the node and from another mount
//! namespace. If something is broken, that is the first finding.

use anyhow::{Context as _, Result, ensure};
use cluster_tests::fixtures::{self, TestDomain};
use cluster_tests::{Cluster, Namespace, program_path, wait_until};
use serde_json::Value;

const NODE: u8 = 1;

/// The number of lines of a screen.
const SCREEN: usize = 24;

#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_node_with_a_claim_is_healthy_and_without_the_claims_spec_is_not() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "doctor")?;
    let domain = TestDomain::create(&cluster, &namespace, "train-a", "Single")?;
    fixtures::run_pod(&cluster, &namespace, "worker", NODE, Some(&domain))?;
    let claim = fixtures::only_claim_uid(&cluster, &namespace)?;

    // Claims of earlier tests may still be unprepared.
    let text = wait_until(&cluster, "doctor finds the node healthy", || {
        let text = cluster.on_node(NODE, &format!("{} doctor 2>&1", program()?))?;
        ensure!(text.ends_with("\nhealthy\n"), "doctor prints: {text}");
        Ok(text)
    })?;
    ensure!(
        text.lines().count() <= SCREEN,
        "the output is too long: {text}"
    );
    ensure!(
        !text.contains("[runtime-"),
        "it has not queried containerd: {text}"
    );
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
        "without the claim's spec it reports {report:#}"
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
        "with another mount than containerd's it reports {report:#}"
    );
    Ok(())
}

/// Another containerd instead of kubelet's: doctor uses the configuration that containerd itself reports.
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn doctor_uses_the_configuration_that_containerd_reports() -> Result<()> {
    let cluster = Cluster::connect()?;
    for (setting, id) in [
        ("enable_cdi = false", "runtime-cdi-off"),
        ("cdi_spec_dirs = ['/etc/cdi']", "runtime-spec-dirs"),
    ] {
        let table = format!("[plugins.'io.containerd.cri.v1.runtime']\n{setting}");
        let first = with_containerd(&cluster, "", &table)?;
        ensure!(first.0 == id, "with {setting} it reports {first:?}");
    }
    let disabled = "disabled_plugins = ['io.containerd.grpc.v1.cri']";
    let first = with_containerd(&cluster, disabled, "")?;
    ensure!(
        first.0 == "runtime-cri-disabled",
        "without CRI it reports {first:?}"
    );
    Ok(())
}

/// kubelet runs, but its runtime's socket is missing.
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_missing_runtime_is_reported() -> Result<()> {
    let cluster = Cluster::connect()?;
    let report = broken(
        &cluster,
        "exec unshare --mount --propagation private \
         sh -c 'mount -t tmpfs tmpfs /run/containerd; $doctor'",
    )?;
    let ids = report.pointer("/findings").and_then(Value::as_array);
    let mut ids = ids.into_iter().flatten().filter_map(|it| it.get("id"));
    ensure!(
        ids.any(|id| id == "runtime-not-answering"),
        "without containerd's socket it reports {report:#}"
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
        "from outside it prints: {text}"
    );
    Ok(())
}

/// The first finding if a containerd with this configuration is at kubelet's socket.
fn with_containerd(cluster: &Cluster, top: &str, tables: &str) -> Result<(String, String)> {
    let config = format!(
        "version = 3
        root = '/run/other/root'
        state = '/run/other/state'
        {top}
        [grpc]
        address = '/run/other/containerd.sock'
        [plugins.'io.containerd.internal.v1.opt']
        path = '/run/other/opt'
        [plugins.'io.containerd.nri.v1.nri']
        disable = true
        {tables}"
    );
    let script = format!(
        "mkdir -p /run/other; printf %s \"{config}\" >/run/other/config.toml
        containerd --config /run/other/config.toml 2>/run/other/log & other=$!
        until [ -S /run/other/containerd.sock ]; do kill -0 $other || exit 9; sleep 0.1; done
        unshare --mount --propagation private sh -c 'mount --bind \
            /run/other/containerd.sock /run/containerd/containerd.sock; $doctor'
        code=$?; kill $other; wait $other; rm -r /run/other; exit $code"
    );
    // containerd listens before its CRI plugin is ready.
    wait_until(cluster, "the other containerd answers", || {
        let first = first(&broken(cluster, &script)?)?;
        ensure!(first.0 != "runtime-not-answering", "it reports {first:?}");
        Ok(first)
    })
}

/// Runs a script that breaks the node, runs `$doctor` and repairs the node; returns the report.
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

/// The program's path on the node: nodes share the machine's file system.
fn program() -> Result<String> {
    program_path("cdi-gen")
}
