//! Slices that kubelet or a user deletes: the time until they are restored.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::support::{ScriptedDriver, run, seconds};

/// A node without kubelet, so that its slices are not wiped meanwhile.
const ANOTHER_NODE: &str = "another-node";

// req: KUBELET-37
#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn slices_that_kubelet_wipes_at_its_start_are_restored_within_two_seconds() -> Result<()> {
    run("19", async |on| {
        let _running = on.serve(&ScriptedDriver::default()).await?;
        on.until_published().await;
        let foreign = serde_json::from_value::<ResourceSlice>(json!({
            "metadata": {"name": format!("{}-{ANOTHER_NODE}", on.namespace)},
            "spec": {
                "driver": on.driver, "nodeName": ANOTHER_NODE, "devices": [],
                "pool": {"name": ANOTHER_NODE, "generation": 1, "resourceSliceCount": 1},
            },
        }))?;
        let foreign = on
            .all_slices()
            .create(&PostParams::default(), &foreign)
            .await?;
        let name = foreign.metadata.name.clone().context("no name")?;
        let mut times = Vec::new();
        for _ in 0..3 {
            let history = on.watch_slices().await?;
            on.kubelet.restart().await?;
            times.push(history.until_healed().await);
        }
        let now = on.all_slices().get(&name).await?;
        ensure!(now == foreign, "the other node's slice changed");
        on.all_slices()
            .delete(&name, &DeleteParams::default())
            .await?;
        let slowest = times.iter().max().copied().unwrap_or_default();
        ensure!(slowest < Duration::from_secs(2), "{times:?}");
        let times: Vec<_> = times.into_iter().map(seconds).collect();
        Ok(format!("from wipe to slice: {}", times.join(", ")))
    })
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_slice_gets_another_name_if_another_nodes_slice_has_its_name() -> Result<()> {
    run("name", async |on| {
        let plain = format!("00000-{}-node1", on.driver);
        let foreign = serde_json::from_value::<ResourceSlice>(json!({
            "metadata": {"name": plain},
            "spec": {
                "driver": on.driver, "nodeName": ANOTHER_NODE, "devices": [],
                "pool": {"name": ANOTHER_NODE, "generation": 1, "resourceSliceCount": 1},
            },
        }))?;
        let slices = on.all_slices();
        let foreign = slices.create(&PostParams::default(), &foreign).await?;
        let _running = on.serve(&ScriptedDriver::default()).await?;
        let published = on.until_published().await;
        let name = published.metadata.name.unwrap_or_default();
        ensure!(name == format!("{plain}-2"), "{name}");
        ensure!(
            slices.get(&plain).await? == foreign,
            "the other slice changed"
        );
        slices.delete(&plain, &DeleteParams::default()).await?;
        Ok(name)
    })
}

// req: KUBELET-38
#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_slice_deleted_by_hand_is_back_within_a_second() -> Result<()> {
    run("slice", async |on| {
        let _running = on.serve(&ScriptedDriver::default()).await?;
        let mut took = Vec::new();
        for _ in 0..5 {
            let slice = on.until_published().await;
            let history = on.watch_slices().await?;
            let name = slice.metadata.name.unwrap_or_default();
            let asked = Instant::now();
            on.all_slices()
                .delete(&name, &DeleteParams::default())
                .await?;
            history.until_healed().await;
            let back = history.events().last().map(|(time, _)| *time);
            took.extend(back.map(|back| back.duration_since(asked)));
        }
        let slowest = took.iter().max().copied().unwrap_or_default();
        ensure!(
            took.len() == 5 && slowest < Duration::from_secs(1),
            "{took:?}"
        );
        let took: Vec<_> = took.into_iter().map(seconds).collect();
        Ok(format!(
            "from the request to the watch's event: {}",
            took.join(", ")
        ))
    })
}
