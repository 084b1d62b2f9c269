//! Driver-managed IMEX: with a Secret, the daemons connect by mutual TLS. A renewed certificate only sends a signal,
//! and jobs continue; an unusable one changes nothing and is reported.

use anyhow::{Context as _, Result, ensure};
use cluster_tests::fixtures::{self, TestDomain};
use cluster_tests::node_pod::{NAMESPACE, NodePod};
use cluster_tests::release::{CHART, helm};
use cluster_tests::{Cluster, Namespace, channels, imex_members, wait_until};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

const SECRET: &str = "resources.computeDomains.imex.tlsSecret";

// req: MODE-40, MODE-41, MODE-42
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_renewed_certificate_sends_a_signal_and_a_wrong_one_changes_nothing() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "encrypted")?;
    let before = imex_members::wait_until_ready(&cluster)?;
    ensure!(
        answer_without_tls(&cluster)?.contains("REFUSED"),
        "a daemon without TLS answers why it refuses"
    );
    let authority = Authority::new()?;
    authority.issue(&cluster, &authority)?;
    let _clear = WithoutTls(&cluster);
    update(&cluster, "imex-tls")?;
    let after = wait_until(&cluster, "both nodes have new daemons", || {
        let members = imex_members::wait_until_ready(&cluster)?;
        let is_new = |it: &imex_members::Member| before.iter().all(|old| old.pod_uid != it.pod_uid);
        ensure!(members.iter().all(is_new), "{members:?}");
        Ok(members)
    })?;
    until_connected(&cluster)?;
    ensure!(
        answer_without_tls(&cluster)?.is_empty(),
        "a client without TLS got an answer"
    );

    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    let channel = channels::of_domain(&cluster, &namespace, "train")?;
    for node in [1, 2] {
        let pod = format!("worker-{node}");
        fixtures::run_pod(&cluster, &namespace, &pod, node, Some(&domain))?;
    }
    authority.issue(&cluster, &authority)?;
    for node in [1, 2] {
        wait_until(&cluster, "the certificates are renewed", || {
            let log = NodePod::imex_daemon(&cluster, node)?.log()?;
            ensure!(log.contains("certificates renewed"), "{log}");
            Ok(())
        })?;
    }
    until_connected(&cluster)?;

    // Its key does not match its certificate.
    let other = Authority::new()?;
    other.issue(&cluster, &authority)?;
    for node in [1, 2] {
        let pod = NodePod::imex_daemon(&cluster, node)?.name;
        wait_until(&cluster, "the wrong certificate is reported", || {
            let events = cluster.events_about(NAMESPACE, &pod)?.join("\n");
            let reason = "not signed by ca.crt";
            ensure!(
                events.contains("ImexCertificatesRefused") && events.contains(reason),
                "{events}"
            );
            Ok(())
        })?;
    }
    until_connected(&cluster)?;
    let now = imex_members::wait_until_ready(&cluster)?;
    ensure!(now == after, "{now:?}, and before: {after:?}");
    for node in [1, 2] {
        channels::sees_only(&cluster, &namespace, &format!("worker-{node}"), channel)?;
        let metrics = NodePod::imex_daemon(&cluster, node)?.metrics()?;
        let starts = metrics
            .lines()
            .filter(|it| it.starts_with("imex_dra_imex_starts_total"));
        let again: Vec<_> = starts
            .filter(|it| !it.contains("first") && !it.ends_with(" 0"))
            .collect();
        ensure!(again.is_empty(), "nvidia-imex was restarted: {again:?}");
    }
    Ok(())
}

/// Makes certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        let issuer = Issuer::new(params, key);
        Ok(Self { issuer, pem })
    }

    /// Issues a new certificate for all nodes, in a Secret with the `ca.crt` of `named`.
    fn issue(&self, cluster: &Cluster, named: &Self) -> Result<()> {
        let params = CertificateParams::new(["compute-domain-daemon".to_owned()])?;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": "imex-tls", "namespace": NAMESPACE },
            "stringData": {
                "tls.crt": certificate.pem(),
                "tls.key": key.serialize_pem(),
                "ca.crt": named.pem,
            },
        });
        cluster.apply(&secret.to_string())
    }
}

/// Switches TLS off again when dropped.
struct WithoutTls<'a>(&'a Cluster);

impl Drop for WithoutTls<'_> {
    fn drop(&mut self) {
        // Ignored, so that the test's own failure is reported.
        let _ = update(self.0, "");
        let secret = ["delete", "secret", "imex-tls", "-n", NAMESPACE];
        let _ = self.0.kubectl(&secret);
    }
}

fn update(cluster: &Cluster, secret: &str) -> Result<()> {
    let set = format!("--set={SECRET}={secret}");
    let options = [
        CHART,
        "--reuse-values",
        "--wait=legacy",
        "--timeout=120s",
        &set,
    ];
    helm(cluster, "upgrade", &options).map(drop)
}

/// Waits until each node's daemon is connected to the other one.
fn until_connected(cluster: &Cluster) -> Result<()> {
    for node in [1, 2] {
        wait_until(cluster, &format!("node {node} is connected"), || {
            let ask = "/run/nvidia/driver/usr/bin/nvidia-imex-ctl -u /run/imex-dra/imexd/imexd.sock -N -j";
            let answer: Value = serde_json::from_str(&cluster.on_node(node, ask)?)?;
            let links = answer.pointer("/nodes").and_then(Value::as_object);
            let links = links.context("no nodes")?.values();
            let links = links.filter_map(|it| it.get("connections")?.as_object());
            let states = links
                .flat_map(|it| it.values())
                .filter_map(|it| it.get("status"));
            let connected = states.filter(|it| *it == "CONNECTED").count();
            ensure!(connected == 1, "{answer}");
            Ok(())
        })?;
    }
    Ok(())
}

/// The answer of node 1's daemon to a client without TLS and with another node list.
fn answer_without_tls(cluster: &Cluster) -> Result<String> {
    let pod = NodePod::imex_daemon(cluster, 1)?.name;
    let pod = cluster.json(&["get", "pod", &pod, "-n", NAMESPACE])?;
    let address = pod.pointer("/status/podIP").and_then(Value::as_str);
    let address = address.context("it has no address")?;
    let say = format!(
        "echo 'HELLO 1 0' | timeout 5 busybox nc {address} 50000 | tr -cd '[:print:]'; true"
    );
    let answer = cluster.on_node(1, &say)?;
    let words = answer
        .split_whitespace()
        .find(|it| it.contains("REFUSED") || it.contains("WELCOME"));
    Ok(words.unwrap_or_default().to_owned())
}
