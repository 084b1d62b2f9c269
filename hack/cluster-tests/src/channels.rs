//! Checks which IMEX channels a pod's containers see and may open.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::fixtures::DOMAINS;
use crate::{Cluster, Namespace, fixtures};

/// The directory of channels' device nodes in a container.
pub const CHANNELS: &str = "/dev/nvidia-caps-imex-channels";

/// The channel in a ComputeDomain's status.
///
/// # Errors
/// If the status has none.
pub fn of_domain(cluster: &Cluster, namespace: &Namespace, domain: &str) -> Result<u64> {
    let domain = cluster.json(&["get", DOMAINS, domain, "-n", &namespace.name])?;
    let channel = domain.pointer("/status/channel").and_then(Value::as_u64);
    channel.with_context(|| format!("no channel: {domain}"))
}

/// Checks that the pod has only this channel's device node, and may open it.
///
/// # Errors
/// If it sees anything else.
pub fn sees_only(cluster: &Cluster, namespace: &Namespace, pod: &str, channel: u64) -> Result<()> {
    let command = format!("ls {CHANNELS} && stat -c '%T' {CHANNELS}/*");
    let (_, seen) = cluster.in_pod(&namespace.name, pod, &command)?;
    let expected = format!("channel{channel}\n{channel:x}");
    ensure!(
        seen.trim() == expected,
        "{pod} sees {seen:?}, not {expected:?}"
    );
    // The mock's major has no kernel driver: if the device cgroup permits open(), it fails with ENXIO.
    let command = format!("cat {CHANNELS}/channel{channel}");
    let (_, text) = cluster.in_pod(&namespace.name, pod, &command)?;
    ensure!(
        text.contains("No such device or address"),
        "{pod} opens it: {text:?}"
    );
    Ok(())
}

/// Checks that the device cgroup denies this channel to a pod on this node, even if the pod makes the device node.
///
/// # Errors
/// If the pod opens it.
pub fn may_not_open(
    cluster: &Cluster,
    namespace: &Namespace,
    (pod, node): (&str, u8),
    channel: u64,
) -> Result<()> {
    let major = fixtures::mock_major(cluster, node)?;
    let path = format!("/tmp/channel{channel}");
    let command = format!("rm -f {path}; mknod {path} c {major} {channel} && cat {path}");
    let (opened, text) = cluster.in_pod(&namespace.name, pod, &command)?;
    ensure!(
        !opened && text.contains("open") && text.contains("Operation not permitted"),
        "{pod} opens channel {channel}: {text:?}"
    );
    Ok(())
}
