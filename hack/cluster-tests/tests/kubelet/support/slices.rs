//! The driver's slices: their current state and their history.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures_util::StreamExt as _;
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use tokio::task::JoinHandle;

use super::{NODE, Node, until};

impl Node {
    pub(crate) fn all_slices(&self) -> Api<ResourceSlice> {
        Api::all(self.client.clone())
    }

    fn own(&self) -> String {
        format!("spec.driver={}", self.driver)
    }

    /// The slices of the scenario's driver on all nodes.
    pub(crate) async fn slices(&self) -> Result<Vec<ResourceSlice>> {
        let params = ListParams::default().fields(&self.own());
        Ok(self.all_slices().list(&params).await?.items)
    }

    /// Waits for the driver's slice on this node.
    pub(crate) async fn until_published(&self) -> ResourceSlice {
        until("the slice is published", async || {
            let slices = self.slices().await?;
            let of_node = |it: &ResourceSlice| it.spec.node_name.as_deref() == Some(NODE);
            slices.into_iter().find(of_node).context("there is none")
        })
        .await
    }

    pub(crate) async fn until_withdrawn(&self) {
        until("the slice is deleted", async || {
            let left = self.slices().await?.len();
            ensure!(left == 0, "{left} are left");
            Ok(())
        })
        .await;
    }

    /// Starts to watch the driver's slices.
    pub(crate) async fn watch_slices(&self) -> Result<History> {
        let params = WatchParams::default().fields(&self.own());
        let listed = self
            .all_slices()
            .list(&ListParams::default().fields(&self.own()))
            .await?;
        let version = listed
            .metadata
            .resource_version
            .context("a list without version")?;
        let api = self.all_slices();
        let events = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&events);
        let task = tokio::spawn(async move {
            let Ok(stream) = api.watch(&params, &version).await else {
                return;
            };
            let mut stream = std::pin::pin!(stream);
            while let Some(event) = stream.next().await {
                let seen = match event {
                    Ok(WatchEvent::Added(slice)) => SliceEvent::Added(name(&slice)),
                    Ok(WatchEvent::Modified(slice)) => SliceEvent::Modified(name(&slice)),
                    Ok(WatchEvent::Deleted(slice)) => SliceEvent::Deleted(name(&slice)),
                    _ => continue,
                };
                log.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push((Instant::now(), seen));
            }
        });
        Ok(History { events, task })
    }
}

fn name(slice: &ResourceSlice) -> String {
    slice.metadata.name.clone().unwrap_or_default()
}

/// An event of the slice with this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SliceEvent {
    Added(String),
    Modified(String),
    Deleted(String),
}

/// A watch that runs until it is dropped.
pub(crate) struct History {
    events: Arc<Mutex<Vec<(Instant, SliceEvent)>>>,
    task: JoinHandle<()>,
}

impl History {
    pub(crate) fn events(&self) -> Vec<(Instant, SliceEvent)> {
        self.events
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits until a slice was deleted and another one added; returns the time between.
    pub(crate) async fn until_healed(&self) -> Duration {
        until("the slice was deleted and restored", async || {
            let events = self.events();
            let position = events
                .iter()
                .position(|(_, it)| matches!(it, SliceEvent::Deleted(_)));
            let gone = position.context("it was not deleted")?;
            let later = events.iter().skip(gone);
            let back = later
                .clone()
                .find(|(_, it)| matches!(it, SliceEvent::Added(_)));
            let (deleted, _) = later.clone().next().context("no such event")?;
            let (added, _) = back.context("it is not restored")?;
            Ok(added.duration_since(*deleted))
        })
        .await
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.task.abort();
    }
}
