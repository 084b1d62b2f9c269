//! The slices of the node's GPUs.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, bail};
use futures_util::TryStreamExt as _;
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use tokio::time::timeout;

use super::objects::DRIVER;
use crate::plugin::Plugin;

/// The limit for the time from exec until the slices are published.
const GIVE_UP: Duration = Duration::from_secs(60);

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
        let config = watcher::Config::default().fields(&self.fields);
        let mut events = pin!(watcher(self.api.clone(), config));
        let mut published = BTreeMap::new();
        // The watch runs before the measurement starts.
        while !matches!(events.try_next().await?, Some(Event::InitDone)) {}
        let plugin = start()?;
        let all = async {
            while published.values().sum::<usize>() != devices {
                match events.try_next().await? {
                    Some(Event::Apply(slice)) => {
                        let of_slice = slice.spec.devices.as_ref().map_or(0, Vec::len);
                        published.insert(slice.name_any(), of_slice);
                    }
                    Some(_) => {}
                    None => bail!("the watch of the slices ended"),
                }
            }
            Ok(plugin.age())
        };
        let took = timeout(GIVE_UP, all).await;
        let took = took.with_context(|| format!("no slices:\n{}", plugin.printed()))??;
        Ok((plugin, took))
    }

    /// The names and resource versions.
    pub(super) async fn versions(&self) -> anyhow::Result<Vec<(String, Option<String>)>> {
        let ours = ListParams::default().fields(&self.fields);
        let slices = self.api.list(&ours).await?;
        let version = |slice: &ResourceSlice| (slice.name_any(), slice.resource_version());
        Ok(slices.iter().map(version).collect())
    }
}
