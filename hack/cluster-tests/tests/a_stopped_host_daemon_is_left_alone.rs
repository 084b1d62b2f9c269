//! The administrator manages the host's nvidia-imex. If it stops under a running workload, the driver does
//! not restart or report it, and changes neither the workload nor its device.

use std::time::Duration;

use anyhow::{Result, ensure};
use cluster_tests::fixtures::{self, CHANNEL_PATH, TestDomain};
use cluster_tests::node_pod::NodePod;
use cluster_tests::{Cluster, Namespace, throughout, wait_until};

const NODE: u8 = 1;

/// The time of observation, long enough for the plugin's loops over local state, which run every two seconds.
const WATCHED_FOR: Duration = Duration::from_secs(8);

/// The node's daemon, stopped until this is dropped. All nodes share a PID namespace, so the test counts
/// processes.
struct StoppedDaemon<'a> {
    cluster: &'a Cluster,
    left: usize,
}

impl StoppedDaemon<'_> {
    fn stop(cluster: &Cluster) -> Result<StoppedDaemon<'_>> {
        let pid = "$(cat /run/nvidia-imex.pid)";
        let before = running(cluster)?;
        let stop = format!("pid={pid}; kill -9 $pid; while [ -d /proc/$pid ]; do sleep 0.05; done");
        cluster.on_node(NODE, &stop)?;
        let left = running(cluster)?;
        ensure!(left < before, "{before} daemons ran, {left} still run");
        Ok(StoppedDaemon { cluster, left })
    }

    fn is_started_again(&self) -> Result<bool> {
        Ok(running(self.cluster)? > self.left)
    }
}

fn running(cluster: &Cluster) -> Result<usize> {
    let count = "grep -lx nvidia-imex /proc/[0-9]*/comm 2>/dev/null | wc -l";
    Ok(cluster.on_node(NODE, count)?.trim().parse()?)
}

impl Drop for StoppedDaemon<'_> {
    fn drop(&mut self) {
        // This also starts the daemon. Ignored: if it fails, the next test fails.
        drop(fixtures::BrokenDriver::install(NODE, &[]));
    }
}

/// Replacements for the driver's programs that record their calls.
struct Recorders<'a>(&'a Cluster);

impl Recorders<'_> {
    const CALLS: &'static str = "/run/nvidia/driver/calls";

    fn install(cluster: &Cluster) -> Result<Recorders<'_>> {
        let calls = Self::CALLS;
        let install = format!(
            r#"cd /run/nvidia/driver/usr/bin; rm -f {calls}; cp -p nvidia-imex-ctl ../nvidia-imex-ctl.kept
            for name in nvidia-imex nvidia-imex-ctl; do
                printf '#!/bin/sh\necho %s "$@" >>{calls}\n' $name >$name; chmod 755 $name
            done
            ./nvidia-imex-ctl -q; grep -qx 'nvidia-imex-ctl -q' {calls}; : >{calls}"#
        );
        let recorders = Recorders(cluster);
        cluster.on_node(NODE, &format!("set -e; {install}"))?;
        Ok(recorders)
    }

    fn calls(&self) -> Result<String> {
        self.0.on_node(NODE, &format!("cat {}", Self::CALLS))
    }
}

impl Drop for Recorders<'_> {
    fn drop(&mut self) {
        let restore = "cd /run/nvidia/driver/usr/bin && rm -f nvidia-imex && mv ../nvidia-imex-ctl.kept nvidia-imex-ctl";
        drop(self.0.on_node(NODE, restore)); // ignored: if it fails, the next test fails
    }
}

// req: NODE-37
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_workload_keeps_its_device_and_can_end_while_the_daemon_is_down() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "host-daemon")?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    fixtures::run_pod(&cluster, &namespace, "worker", NODE, Some(&domain))?;
    let claim = fixtures::only_claim_uid(&cluster, &namespace)?;
    let device = || {
        let stat = format!("stat -c '%F %a %t %T %i' {CHANNEL_PATH}");
        cluster.in_pod(&namespace.name, "worker", &stat)
    };
    let before = device()?;
    let plugin = NodePod::plugin(&cluster, NODE)?;
    let (restarts, log) = (plugin.restarts()?, plugin.log()?);

    let recorders = Recorders::install(&cluster)?;
    let daemon = StoppedDaemon::stop(&cluster)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    runtime.block_on(throughout(WATCHED_FOR, async || {
        ensure!(!daemon.is_started_again()?, "the daemon has been restarted");
        ensure!(plugin.restarts()? == restarts, "the plugin was restarted");
        Ok(())
    }))?;
    let new_lines = plugin.log()?.replacen(&log, "", 1);
    ensure!(
        !new_lines.to_lowercase().contains("imex"),
        "the plugin has printed {new_lines:?}"
    );
    ensure!(device()? == before, "the device has changed");
    ensure!(plugin.is_ready()?, "the plugin is not ready");

    cluster.kubectl(&["delete", "pod", "worker", "-n", &namespace.name, "--wait"])?;
    wait_until(&cluster, "the claim is unprepared", || {
        let traces = fixtures::traces_on_node(&cluster, NODE, &claim)?;
        ensure!(traces.is_empty(), "left: {traces}");
        Ok(())
    })?;
    // The driver does not query it before a Prepare, either.
    fixtures::run_pod(&cluster, &namespace, "next", NODE, Some(&domain))?;
    let calls = recorders.calls()?;
    ensure!(calls.is_empty(), "the driver ran {calls:?}");
    Ok(())
}
