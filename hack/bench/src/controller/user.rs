//! The user, which creates and deletes every domain and watches until the controller is done.

use std::collections::HashMap;
use std::pin::pin;

use anyhow::Context;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;
use tokio::sync::watch;

use super::measured::Change;
use super::objects;

/// The number of the user's concurrent requests.
const AT_ONCE: usize = 32;

pub(super) struct User {
    client: Client,
    seen: watch::Receiver<Seen>,
}

/// Numbers of domains.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Seen {
    all: usize,
    ready: usize,
}

// === impl User ===

impl User {
    /// Starts the watch.
    pub(super) fn new(client: Client) -> Self {
        let (sender, seen) = watch::channel(Seen::default());
        tokio::spawn(observe(client.clone(), sender));
        Self { client, seen }
    }

    /// Applies the change to `size` domains; returns when all are Ready, or deleted.
    pub(super) async fn change(&self, change: Change, size: usize) -> anyhow::Result<()> {
        let requests = stream::iter(0..size)
            .map(Ok)
            .try_for_each_concurrent(AT_ONCE, |number| self.one(change, number));
        let goal = match change {
            Change::Create => Seen {
                all: size,
                ready: size,
            },
            Change::Delete => Seen::default(),
        };
        let mut seen = self.seen.clone();
        let reached = async {
            let reached = seen.wait_for(|seen| *seen == goal).await;
            reached.map(drop).context("the watch of the domains failed")
        };
        tokio::try_join!(requests, reached).map(drop)
    }

    /// The progress of the change, for the error if it does not end.
    pub(super) fn progress(&self) -> String {
        let Seen { all, ready } = *self.seen.borrow();
        format!("{all} domains exist, of which {ready} are Ready")
    }

    /// The number of templates in all namespaces.
    pub(super) async fn templates(&self) -> anyhow::Result<usize> {
        use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
        let templates: Api<PartialObjectMeta<ResourceClaimTemplate>> =
            Api::all(self.client.clone());
        let first = templates
            .list_metadata(&ListParams::default().limit(1))
            .await?;
        let rest = first.metadata.remaining_item_count.unwrap_or_default();
        Ok(first.items.len() + usize::try_from(rest)?)
    }

    async fn one(&self, change: Change, number: usize) -> anyhow::Result<()> {
        let kind = objects::domains();
        let namespace = objects::namespace(number);
        let domains: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &namespace, &kind);
        match change {
            Change::Create => {
                let domain = objects::domain(number);
                domains.create(&PostParams::default(), &domain).await?;
            }
            Change::Delete => {
                let name = objects::name(number);
                domains.delete(&name, &DeleteParams::default()).await?;
            }
        }
        Ok(())
    }
}

/// Counts until the receiver is dropped. Ends at the first error; the receiver notices that.
async fn observe(client: Client, seen: watch::Sender<Seen>) {
    let domains: Api<DynamicObject> = Api::all_with(client, &objects::domains());
    let mut events = pin!(watcher(domains, watcher::Config::default()));
    let mut ready = HashMap::new();
    let mut count = 0;
    while let Ok(Some(event)) = events.try_next().await {
        let (domain, exists) = match event {
            Event::Apply(domain) | Event::InitApply(domain) => (domain, true),
            Event::Delete(domain) => (domain, false),
            Event::Init | Event::InitDone => continue,
        };
        let is = exists && is_ready(&domain);
        let uid = domain.uid().unwrap_or_default();
        let was = if exists {
            ready.insert(uid, is)
        } else {
            ready.remove(&uid)
        };
        count = count + usize::from(is) - usize::from(was == Some(true));
        let all = ready.len();
        if seen.send(Seen { all, ready: count }).is_err() {
            return;
        }
    }
}

fn is_ready(domain: &DynamicObject) -> bool {
    let status = domain.data.pointer("/status/status");
    status.and_then(Value::as_str) == Some("Ready")
}
