//! What the guard adds to a container's start, as kubelet counts it: the runtime's calls that create and
//! start one, with the guard and without, in blocks of pods in turn.

use std::time::Duration;

use anyhow::Context;
use kube::Client;
use kube::api::GetParams;
use kube::core::Request;

use super::plugin::{Plugin, Setup};
use super::pods;

/// Pods of a block. kubelet gives sums, so that a block has one mean.
pub(super) const PODS: usize = 10;

/// The mean of creating and starting a container, in the two blocks of one turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    pub(super) guarded: Duration,
    pub(super) floor: Duration,
}

/// Runs so many turns, alternating which block comes first. Each block has a plugin of its own.
pub(super) fn measure(
    runtime: &tokio::runtime::Runtime,
    client: &Client,
    setup: &Setup,
    template: &str,
    turns: usize,
) -> anyhow::Result<Vec<Turn>> {
    let block = |is_guarded| -> anyhow::Result<Duration> {
        let setup = Setup {
            is_guarded,
            ..setup.clone()
        };
        let (plugin, _) = Plugin::start(&setup)?;
        let mean = runtime.block_on(mean(client, &setup.node, template))?;
        plugin.terminate()?;
        Ok(mean)
    };
    let mut measured = Vec::with_capacity(turns);
    for number in 0..turns {
        let turn = if number % 2 == 0 {
            let guarded = block(true)?;
            let floor = block(false)?;
            Turn { guarded, floor }
        } else {
            let floor = block(false)?;
            let guarded = block(true)?;
            Turn { guarded, floor }
        };
        measured.push(turn);
    }
    Ok(measured)
}

/// Of the pods that are started here, one after the other; the first is not counted.
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
    anyhow::ensure!(
        containers > 0.0,
        "kubelet has counted no container in its metrics"
    );
    Ok(Duration::from_secs_f64(seconds / containers))
}

/// What kubelet has waited for the runtime to create and start containers, since its start.
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
