//! If a runtime's NRI configuration requires the guard, the runtime starts no container while the guard is missing,
//! except those that tolerate that.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use cluster_tests::fixtures::{self, ChartValue};
use cluster_tests::release::upgrade;
use cluster_tests::{Cluster, Namespace, wait_until};

/// For the runtime's configuration, as in `docs/nri-guard.md`.
const REQUIRED: &str = "
[plugins.'io.containerd.nri.v1.nri'.default_validator]
enable = true
required_plugins = ['90-imex-dra']
tolerate_missing_plugins_annotation = 'nri.example.com/tolerate-missing'
";
const TOLERATED: &str = "kubeletPlugin.podAnnotations.nri\\.example\\.com/tolerate-missing";

/// The plugin's pods, which contain the guard, may start without it until this is dropped.
struct Tolerated(Cluster);

/// Node 1's runtime requires the guard, until this is dropped.
struct Required {
    cluster: Cluster,
    file: PathBuf,
    before: String,
}

// req: NRI-12
#[test]
#[ignore = "needs the cluster of hack/e2e.sh"]
fn a_pod_without_the_annotation_waits_for_the_guard() -> Result<()> {
    let cluster = Cluster::connect()?;
    let namespace = Namespace::create(&cluster, "guard-required")?;
    let _tolerated = Tolerated::set(&cluster)?;
    let enforce = ChartValue::set(&cluster, "nriGuard.mode", "enforce")?;
    let _required = Required::set(&cluster)?;
    fixtures::create_pod(&cluster, &namespace, "guarded", 1, None)?;
    fixtures::wait_until_running(&cluster, &namespace, "guarded")?;

    // Off: the plugin's new pods run.
    drop(enforce);
    fixtures::create_pod(&cluster, &namespace, "waits", 1, None)?;
    wait_until(&cluster, "the runtime refuses it", || {
        let events = cluster.events_about(&namespace.name, "waits")?;
        let why = "required plugin \"90-imex-dra\" not present";
        let refused = events.iter().any(|event| event.contains(why));
        ensure!(refused, "its events: {events:#?}");
        Ok(())
    })?;

    let _enforce = ChartValue::set(&cluster, "nriGuard.mode", "enforce")?;
    fixtures::wait_until_running(&cluster, &namespace, "waits")
}

// === impl Tolerated ===

impl Tolerated {
    fn set(cluster: &Cluster) -> Result<Self> {
        let tolerated = Self(cluster.clone());
        upgrade(cluster, &[&format!("--set-string={TOLERATED}=true")])?;
        Ok(tolerated)
    }
}

impl Drop for Tolerated {
    fn drop(&mut self) {
        // ignored: nothing reads the annotation
        drop(upgrade(&self.0, &[&format!("--set={TOLERATED}=null")]));
    }
}

// === impl Required ===

impl Required {
    fn set(cluster: &Cluster) -> Result<Self> {
        let state = cluster.on_node(1, "dirname $(dirname $KUBECONFIG)")?;
        let file = PathBuf::from(state.trim_end()).join("node1/containerd.toml");
        let before = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
        let required = Self {
            cluster: cluster.clone(),
            file,
            before,
        };
        required.restart_with(&format!("{}{REQUIRED}", required.before))?;
        Ok(required)
    }

    fn restart_with(&self, configuration: &str) -> Result<()> {
        fs::write(&self.file, configuration)?;
        self.cluster
            .script(&["restart", "containerd-1"], "")
            .map(drop)
    }
}

impl Drop for Required {
    fn drop(&mut self) {
        drop(self.restart_with(&self.before)); // ignored: if it fails, the next test fails, too
    }
}
