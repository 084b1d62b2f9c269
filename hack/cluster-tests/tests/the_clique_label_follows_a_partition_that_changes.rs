//! With `gpuCliqueLabelEnabled`, the label `nvidia.com/gpu.clique` of a node follows its NVLink partition without
//! a restart. It stays when the node's slice is deleted, and if another program has written it.

use anyhow::{Result, ensure};
use cluster_tests::cliques::{self, CLIQUE, LABEL, LABEL_ENABLED, OTHER_CLIQUE};
use cluster_tests::fixtures::{self, BrokenDriver, ChartValue, TestDomain};
use cluster_tests::node_pod::NodePod;
use cluster_tests::{Cluster, Namespace, wait_until};

/// A label of the GPU operator's feature discovery, with a value that this driver would not write.
const THEIRS: &str = "of-feature-discovery";

// req: CHANNEL-21
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn the_label_changes_under_claims_outlives_its_slice_and_does_not_replace_foreign_ones()
-> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "repartitioned")?;
    let theirs = LabelOfOthers::write(&cluster, 2)?;
    let _label = ChartValue::set(&cluster, LABEL_ENABLED, "true")?;
    let _sharing = ChartValue::set(&cluster, "resources.computeDomains.imex.sharing", "many")?;
    wait_until_labelled(&cluster, 1, CLIQUE)?;
    let domain = TestDomain::create(&cluster, &namespace, "train", "Single")?;
    let run = |pod: &str, node| {
        let name = format!("{pod}-{node}");
        fixtures::run_pod(&cluster, &namespace, &name, node, Some(&domain))
    };
    let mut drivers = Vec::new();
    for node in [1, 2] {
        run("before", node)?;
    }
    let started = starts_of_plugins(&cluster)?;

    for node in [1, 2] {
        drivers.push(BrokenDriver::install(node, &["--clique", OTHER_CLIQUE])?);
        // With prepared claims, the plugin checks its node every minute.
        run("after", node)?;
    }
    for node in [1, 2] {
        wait_until_reported(&cluster, node, CLIQUE, OTHER_CLIQUE)?;
    }
    wait_until_labelled(&cluster, 1, OTHER_CLIQUE)?;
    ensure!(
        starts_of_plugins(&cluster)? == started,
        "a plugin has been restarted"
    );

    let stopped = StoppedPlugin::on(&cluster, 1)?;
    wait_until(&cluster, "kubelet has deleted the slice of node1", || {
        let slices = cluster.items(&["resourceslices", "--field-selector=spec.nodeName=node1"])?;
        ensure!(slices.is_empty(), "{slices:#?}");
        Ok(())
    })?;
    ensure!(cliques::label(&cluster, 2)?.as_deref() == Some(THEIRS));
    drop(theirs);
    for driver in &drivers {
        driver.repair()?;
    }
    run("back", 2)?;
    // The controller writes one label after the other, so it has seen before that node1 has no slice.
    wait_until_labelled(&cluster, 2, CLIQUE)?;
    ensure!(cliques::label(&cluster, 1)?.as_deref() == Some(OTHER_CLIQUE));

    drop(stopped);
    wait_until_labelled(&cluster, 1, CLIQUE)?;
    wait_until_reported(&cluster, 1, OTHER_CLIQUE, CLIQUE)
}

fn wait_until_labelled(cluster: &Cluster, node: u8, clique: &str) -> Result<()> {
    let what = format!("the label of node{node} is {clique}");
    wait_until(cluster, &what, || {
        let label = cliques::label(cluster, node)?;
        ensure!(label.as_deref() == Some(clique), "it is {label:?}");
        Ok(())
    })
}

fn wait_until_reported(cluster: &Cluster, node: u8, from: &str, to: &str) -> Result<()> {
    let what = format!("an event says that node{node} is now in {to}");
    let words = format!("changed from {from} to {to}:");
    wait_until(cluster, &what, || {
        let events = cluster.events_about("default", &format!("node{node}"))?;
        let reported =
            |event: &String| event.starts_with("CliqueChanged") && event.contains(&words);
        ensure!(events.iter().any(reported), "its events: {events:#?}");
        Ok(())
    })
}

/// The plugins' pods, and the number of restarts of each.
fn starts_of_plugins(cluster: &Cluster) -> Result<Vec<(String, u64)>> {
    let start = |node| {
        let plugin = NodePod::plugin(cluster, node)?;
        let restarts = plugin.restarts()?;
        Ok((plugin.name, restarts))
    };
    [1, 2].into_iter().map(start).collect()
}

/// A node's label written by another program, until this is dropped.
struct LabelOfOthers {
    cluster: Cluster,
    node: u8,
}

impl LabelOfOthers {
    fn write(cluster: &Cluster, node: u8) -> Result<Self> {
        let of_others = Self {
            cluster: cluster.clone(),
            node,
        };
        of_others.label(&format!("{LABEL}={THEIRS}"))?;
        Ok(of_others)
    }

    fn label(&self, change: &str) -> Result<()> {
        let node = format!("node{}", self.node);
        let manager = "--field-manager=gpu-feature-discovery";
        let label = ["label", "--overwrite", "node", &node, change, manager];
        self.cluster.kubectl(&label).map(drop)
    }
}

impl Drop for LabelOfOthers {
    fn drop(&mut self) {
        drop(self.label(&format!("{LABEL}-"))); // ignored: if it fails, the next label test fails, too
    }
}

/// A node without its plugin until this is dropped: without a label that the chart's affinity requires.
struct StoppedPlugin {
    cluster: Cluster,
    node: u8,
}

impl StoppedPlugin {
    fn on(cluster: &Cluster, node: u8) -> Result<Self> {
        let stopped = Self {
            cluster: cluster.clone(),
            node,
        };
        stopped.label("nvidia.com/gpu.present-")?;
        Ok(stopped)
    }

    fn label(&self, change: &str) -> Result<()> {
        let node = format!("node{}", self.node);
        let label = ["label", "--overwrite", "node", &node, change];
        self.cluster.kubectl(&label).map(drop)
    }
}

impl Drop for StoppedPlugin {
    fn drop(&mut self) {
        drop(self.label("nvidia.com/gpu.present=true")); // ignored: if it fails, the next test fails, too
    }
}
