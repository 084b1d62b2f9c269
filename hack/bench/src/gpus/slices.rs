//! The slices of the node's GPUs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use tokio::time::timeout;

use super::objects::DRIVER;
use crate::plugin::Plugin;

/// The limit for the time from exec until the slices are published.
const GIVE_UP: Duration = Duration::from_secs(60);

type Events = BoxStream<'static, Result<Event<ResourceSlice>, watcher::Error>>;

pub(super) struct Slices {
    api: Api<ResourceSlice>,
    /// Selects the driver's slices of the node.
    fields: String,
}

// === impl Slices ===

impl Slices {
    pub(super) fn new(client: &Client, node: &str) -> Self {
        Self {
            api: Api::all(client.clone()),
            fields: format!("spec.nodeName={node},spec.driver={}", DRIVER.0),
        }
    }

    /// Deletes all, starts a plugin and waits until slices with this number of devices are published. Returns the
    /// time since exec.
    pub(super) async fn start(
        &self,
        devices: usize,
        start: impl FnOnce() -> anyhow::Result<Plugin>,
    ) -> anyhow::Result<(Plugin, Duration)> {
        let ours = ListParams::default().fields(&self.fields);
        self.api
            .delete_collection(&DeleteParams::default(), &ours)
            .await?;
        let mut events = self.watch().await?;
        let mut published = BTreeMap::new();
        let plugin = start()?;
        let all = async {
            while published.values().sum::<usize>() != devices {
                let slice = next(&mut events).await?;
                let of_slice = slice.spec.devices.as_ref().map_or(0, Vec::len);
                published.insert(slice.name_any(), of_slice);
            }
            Ok::<_, anyhow::Error>(plugin.age())
        };
        let took = timeout(GIVE_UP, all).await;
        let took = took.with_context(|| format!("no slices:\n{}", plugin.printed()))??;
        Ok((plugin, took))
    }

    /// The time from `cause` until the device gets a taint.
    pub(super) async fn tainted(
        &self,
        device: &str,
        cause: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<Duration> {
        let mut events = self.watch().await?;
        let began = Instant::now();
        cause()?;
        let tainted = async {
            while !has_taint(&next(&mut events).await?, device) {}
            Ok(began.elapsed())
        };
        let took = timeout(GIVE_UP, tainted).await;
        took.with_context(|| format!("{device} gets no taint"))?
    }

    /// A watch that runs, of what changes from now on.
    async fn watch(&self) -> anyhow::Result<Events> {
        let config = watcher::Config::default().fields(&self.fields);
        let mut events = watcher(self.api.clone(), config).boxed();
        while !matches!(events.try_next().await?, Some(Event::InitDone)) {}
        Ok(events)
    }

    /// The names and resource versions.
    pub(super) async fn versions(&self) -> anyhow::Result<Vec<(String, Option<String>)>> {
        let ours = ListParams::default().fields(&self.fields);
        let slices = self.api.list(&ours).await?;
        let version = |slice: &ResourceSlice| (slice.name_any(), slice.resource_version());
        Ok(slices.iter().map(version).collect())
    }
}

/// The slice that is created or changed next.
async fn next(events: &mut Events) -> anyhow::Result<ResourceSlice> {
    loop {
        match events.try_next().await? {
            Some(Event::Apply(slice)) => return Ok(slice),
            Some(_) => {}
            None => bail!("the watch of the slices ended"),
        }
    }
}

fn has_taint(slice: &ResourceSlice, device: &str) -> bool {
    let mut devices = slice.spec.devices.iter().flatten();
    devices.any(|it| it.name == device && it.taints.as_ref().is_some_and(|it| !it.is_empty()))
}
