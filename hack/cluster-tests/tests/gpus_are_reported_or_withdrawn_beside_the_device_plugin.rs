//! Where NVIDIA's device plugin serves GPUs, too, an event of the node says so, and the setting `withdraw` publishes none.
//!
//! By default a process that serves a socket of its name stands in for the device plugin, because the project does not
//! build it. By hand, `NVIDIAS_DEVICE_PLUGIN` is the path of its program.

use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use cluster_tests::gpus::{GpuNode, NODE, claim_template, published};
use cluster_tests::{Namespace, fixtures, wait_until};

const PID: &str = "/run/device-plugin.pid";

/// The directory of kubelet.
const SOCKETS: &str = "/var/lib/kubelet/device-plugins";

const STAND_IN: &str = "perl -MIO::Socket::UNIX -e \
    'unlink $ARGV[0]; my $socket = IO::Socket::UNIX->new(Local => $ARGV[0], Listen => 9) or die $!; sleep' nvidia-gpu.sock";

// req: GPU-66
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_device_plugin_is_named_in_an_event_and_with_withdraw_no_gpu_is_published() -> Result<()> {
    let node = GpuNode::new("h100")?;
    let namespace = Namespace::create(&node.cluster, "device-plugin")?;
    let template = claim_template(&namespace, "one", "gpu.nvidia.com", 1);
    node.cluster.apply(&template.to_string())?;
    let plugin = node.start_with("--beside-device-plugin=report")?;
    node.wait_for_devices(8)?;
    let device_plugin = DevicePlugin::start(&node)?;
    wait_until(&node.cluster, "an event of the node names it", || {
        let events = node.cluster.events_about("default", "node1")?;
        let named = |it: &&String| {
            it.starts_with("GPUProblem: ")
                && it.contains("NVIDIA's device plugin runs on this node (nvidia-gpu.sock)")
        };
        ensure!(events.iter().any(|it| named(&it)), "{events:?}");
        Ok(())
    })?;
    ensure!(published(&node.cluster, NODE)?.len() == 8, "only reported");
    device_plugin.kill()?;
    fixtures::create_pod_of_template(&node.cluster, &namespace, "pod", NODE, "one")?;
    fixtures::wait_until_running(&node.cluster, &namespace, "pod")?;
    plugin.end("TERM")?;

    // kill -9 has left a socket, which is no device plugin.
    let _plugin = node.start_with("--beside-device-plugin=withdraw")?;
    node.wait_for_devices(8)?;
    let device_plugin = DevicePlugin::start(&node)?;
    node.wait_for_devices(0)?;
    // The claim that is prepared keeps its GPU, and ends.
    node.wait_for_specs(1)?;
    let delete = ["delete", "pod", "pod", "-n", &namespace.name, "--wait"];
    node.cluster.kubectl(&delete)?;
    node.wait_for_specs(0)?;
    device_plugin.kill()?;
    node.wait_for_devices(8)
}

/// NVIDIA's device plugin, or its stand-in, on a node.
struct DevicePlugin<'a> {
    node: &'a GpuNode,
    child: Child,
}

impl<'a> DevicePlugin<'a> {
    fn start(node: &'a GpuNode) -> Result<Self> {
        let host = node.host.path("");
        let program = match std::env::var("NVIDIAS_DEVICE_PLUGIN") {
            Ok(program) => format!(
                "env LD_LIBRARY_PATH={host}/usr/lib64 {program} --driver-root-ctr-path={host} \
                 --device-discovery-strategy=nvml --fail-on-init-error=true",
                host = host.display()
            ),
            Err(_) => STAND_IN.to_owned(),
        };
        let command =
            format!("cd {SOCKETS}; echo $$ >{PID}; exec {program} >>/run/device-plugin.log 2>&1");
        let child = Command::new(node.cluster.script_path())
            .args(["exec", "--node", &NODE.to_string(), "sh", "-c", &command])
            .stdin(Stdio::null())
            .spawn()
            .context("cannot start the device plugin")?;
        Ok(Self { node, child })
    }

    fn kill(self) -> Result<()> {
        let kill = format!("kill -KILL $(cat {PID})");
        self.node.cluster.on_node(NODE, &kill).map(drop)
    }
}

impl Drop for DevicePlugin<'_> {
    fn drop(&mut self) {
        let end = format!("kill -KILL $(cat {PID}); rm -f {SOCKETS}/nvidia-*.sock");
        // Ignored: it has ended already.
        drop(self.node.cluster.on_node(NODE, &end));
        drop(self.child.wait());
    }
}
