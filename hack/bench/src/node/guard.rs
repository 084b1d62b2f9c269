//! The guard's overhead on a container's start, from kubelet's metrics: the runtime's calls to create and
//! start a container, in alternating blocks of pods with the guard and without.

use std::time::Duration;

use anyhow::Context;
use kube::Client;
use kube::api::GetParams;
use kube::core::Request;

use super::pods;
use super::start::Setup;

/// Pods per block. kubelet exports sums, so each block has one mean.
pub(super) const PODS: usize = 10;

/// The mean time to create and start a container, in two successive blocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockPair {
    pub(super) guarded: Duration,
    pub(super) floor: Duration,
}

/// Runs pairs of blocks, alternating which comes first. Each block has a new plugin.
pub(super) fn measure(
    runtime: &tokio::runtime::Runtime,
    client: &Client,
    setup: &Setup,
    template: &str,
    turns: usize,
) -> anyhow::Result<Vec<BlockPair>> {
    let block = |is_guarded| -> anyhow::Result<Duration> {
        let setup = Setup {
            is_guarded,
            ..setup.clone()
        };
        let (plugin, _) = setup.start()?;
        let mean = runtime.block_on(mean(client, &setup.node, template))?;
        plugin.terminate()?;
        Ok(mean)
    };
    let mut measured = Vec::with_capacity(turns);
    for number in 0..turns {
        let turn = if number % 2 == 0 {
            let guarded = block(true)?;
            let floor = block(false)?;
            BlockPair { guarded, floor }
        } else {
            let floor = block(false)?;
            let guarded = block(true)?;
            BlockPair { guarded, floor }
        };
        measured.push(turn);
    }
    Ok(measured)
}

/// Starts pods one after the other; returns their mean without the first.
async fn mean(client: &Client, node: &str, template: &str) -> anyhow::Result<Duration> {
    let one = async || pods::start(client, node, 1, Some(template)).await;
    one().await?;
    let before = Spent::read(client, node).await?;
    for _ in 0..PODS {
        one().await?;
    }
    let after = Spent::read(client, node).await?;
    let (seconds, containers) = (
        after.seconds - before.seconds,
        after.containers - before.containers,
    );
    anyhow::ensure!(containers > 0.0, "kubelet's metrics count no containers");
    Ok(Duration::from_secs_f64(seconds / containers))
}

/// kubelet's total waiting time for the runtime to create and start containers.
struct Spent {
    seconds: f64,
    containers: f64,
}

// === impl Spent ===

impl Spent {
    async fn read(client: &Client, node: &str) -> anyhow::Result<Self> {
        let request = Request::new(format!("/api/v1/nodes/{node}/proxy"));
        let request = request.get("metrics", &GetParams::default())?;
        let text = client.request_text(request).await?;
        let value = |what: &str, operation: &str| {
            let name = format!(
                r#"kubelet_runtime_operations_duration_seconds_{what}{{operation_type="{operation}"}} "#
            );
            let line = text.lines().find_map(|line| line.strip_prefix(&name));
            line.with_context(|| format!("kubelet's metrics have no {name}"))?
                .trim()
                .parse::<f64>()
                .with_context(|| format!("kubelet's metric {name}"))
        };
        Ok(Self {
            seconds: value("sum", "create_container")? + value("sum", "start_container")?,
            containers: value("count", "start_container")?,
        })
    }
}
