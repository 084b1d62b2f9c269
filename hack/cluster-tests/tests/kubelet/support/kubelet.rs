//! The node's kubelet: stop and start through the supervisor of `hack/cluster.sh`, its log, its
//! configuration, its metrics.

use std::fs;

use anyhow::Result;
use cluster_tests::Component;

use super::Node;

/// The kubelet of the tests' node.
pub(crate) struct Kubelet(Component);

impl Kubelet {
    pub(crate) fn of_cluster() -> Result<Self> {
        Component::of_cluster("kubelet-1").map(Self)
    }

    /// Sends SIGTERM and waits until kubelet has ended.
    pub(crate) async fn stop(&self) -> Result<()> {
        self.0.stop().await
    }

    /// Starts it and waits until its process runs; it needs another second to find its plugins.
    pub(crate) async fn start(&self) -> Result<()> {
        self.0.start().await
    }

    pub(crate) async fn restart(&self) -> Result<()> {
        self.stop().await?;
        self.start().await
    }

    /// Restarts it with only these feature gates (`A: true, B: false`), or with its
    /// original ones (`None`).
    pub(crate) async fn restart_with_gates(&self, gates: Option<&str>) -> Result<()> {
        let node = self.0.state_directory().join("node1");
        let path = node.join("kubelet.yaml");
        let saved = node.join("kubelet.yaml.saved");
        if !saved.exists() {
            fs::copy(&path, &saved)?;
        }
        let mut text = fs::read_to_string(&saved)?;
        if let Some(gates) = gates {
            let others = text
                .lines()
                .filter(|line| !line.starts_with("featureGates:"));
            let gates = format!("featureGates: {{{gates}}}\n");
            text = others.chain([&*gates]).collect::<Vec<_>>().join("\n");
        }
        fs::write(&path, text)?;
        self.restart().await
    }

    /// The last lines of its log that have `word` in them.
    pub(crate) fn lines_about(&self, word: &str, most: usize) -> Vec<String> {
        let log = self.0.log();
        let lines: Vec<_> = log.lines().filter(|line| line.contains(word)).collect();
        let from = lines.len().saturating_sub(most);
        lines.into_iter().skip(from).map(str::to_owned).collect()
    }
}

impl Node {
    /// `dra_resource_claims_in_use` of the driver, or of all with `<any>`.
    pub(crate) async fn claims_in_use(&self, driver: &str) -> Result<u32> {
        let start = format!("dra_resource_claims_in_use{{driver_name=\"{driver}\"}} ");
        let value = self.metric(&start).await?;
        Ok(value.map_or(Ok(0), |value| value.parse())?)
    }

    /// Whether kubelet has the feature gate, and if so, whether it is on.
    pub(crate) async fn gate(&self, name: &str) -> Result<Option<bool>> {
        let start = format!("kubernetes_feature_enabled{{name=\"{name}\"");
        Ok(self.metric(&start).await?.map(|line| line.ends_with('1')))
    }

    /// The rest of the line of kubelet's metrics that begins with `start`.
    async fn metric(&self, start: &str) -> Result<Option<String>> {
        let request = http::Request::get("/api/v1/nodes/node1/proxy/metrics").body(Vec::new())?;
        let text = self.client.request_text(request).await?;
        let mut lines = text.lines();
        Ok(lines.find_map(|line| line.strip_prefix(start).map(str::to_owned)))
    }
}
