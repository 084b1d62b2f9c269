//! Which IMEX channels the containers of a pod see and may open.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::fixtures::DOMAINS;
use crate::{Cluster, Namespace, fixtures};

/// Where the device nodes of channels are in a container.
pub const CHANNELS: &str = "/dev/nvidia-caps-imex-channels";

/// The channel that the status of a ComputeDomain says.
///
/// # Errors
/// If it says none.
pub fn of_domain(cluster: &Cluster, namespace: &Namespace, domain: &str) -> Result<u64> {
    let domain = cluster.json(&["get", DOMAINS, domain, "-n", &namespace.name])?;
    let channel = domain.pointer("/status/channel").and_then(Value::as_u64);
    channel.with_context(|| format!("no channel: {domain}"))
}

/// The pod has the device node of this channel alone, and may open it.
///
/// # Errors
/// If it sees something else.
pub fn sees_only(cluster: &Cluster, namespace: &Namespace, pod: &str, channel: u64) -> Result<()> {
    let command = format!("ls {CHANNELS} && stat -c '%T' {CHANNELS}/*");
    let (_, seen) = cluster.in_pod(&namespace.name, pod, &command)?;
    let expected = format!("channel{channel}\n{channel:x}");
    ensure!(
        seen.trim() == expected,
        "{pod} sees {seen:?}, not {expected:?}"
    );
    // No driver stands behind the mock's number: past the device cgroup the kernel finds nothing.
    let command = format!("cat {CHANNELS}/channel{channel}");
    let (_, text) = cluster.in_pod(&namespace.name, pod, &command)?;
    ensure!(
        text.contains("No such device or address"),
        "{pod} opens it: {text:?}"
    );
    Ok(())
}

/// The device cgroup refuses this channel to a pod on this node, also if it makes the device node itself.
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
