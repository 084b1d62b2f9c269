//! A snapshot of all domains and templates of the test, to check that they do not change.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, ListParams};

use super::{Fixture, reason, state};

/// The compared values by kind, namespace and name.
pub(crate) struct Snapshot {
    of: fn(&str, &DynamicObject) -> String,
    objects: BTreeMap<String, String>,
}

impl Fixture {
    /// A snapshot of UIDs and resource versions: any write is a difference.
    pub(crate) async fn snapshot(&self) -> Result<Snapshot> {
        self.snapshot_of(|_, object| version(object)).await
    }

    /// As [`Fixture::snapshot`] for templates; for domains UID, finalizers, state and reason, so that a
    /// write of the same values is not a difference.
    pub(crate) async fn snapshot_of_meaning(&self) -> Result<Snapshot> {
        self.snapshot_of(|kind, object| match kind {
            "domain" => format!(
                "{} {:?} {:?} {:?}",
                object.uid().unwrap_or_default(),
                object.finalizers(),
                state(object),
                reason(object)
            ),
            _ => version(object),
        })
        .await
    }

    async fn snapshot_of(&self, of: fn(&str, &DynamicObject) -> String) -> Result<Snapshot> {
        let mut objects = BTreeMap::new();
        for namespace in self.namespaces() {
            for (kind, api) in [
                ("domain", self.domains(&namespace)),
                ("template", self.templates(&namespace)),
            ] {
                for object in api.list(&ListParams::default()).await? {
                    let name = format!("{kind} {namespace}/{}", object.name_any());
                    objects.insert(name, of(kind, &object));
                }
            }
        }
        Ok(Snapshot { of, objects })
    }

    /// Fails if an object has changed, is new or is deleted.
    pub(crate) async fn is_unchanged_since(&self, before: &Snapshot) -> Result<()> {
        let now = self.snapshot_of(before.of).await?.objects;
        let before = &before.objects;
        let gone: Vec<_> = before.keys().filter(|it| !now.contains_key(*it)).collect();
        ensure!(gone.is_empty(), "deleted: {gone:?}");
        let other = now
            .iter()
            .filter(|(name, it)| before.get(*name) != Some(it));
        let other: Vec<_> = other
            .map(|(name, it)| (name, it, before.get(name)))
            .collect();
        ensure!(other.is_empty(), "new or changed: {other:?}");
        Ok(())
    }
}

impl Snapshot {
    /// The number of templates.
    pub(crate) fn templates(&self) -> usize {
        let names = self.objects.keys();
        names.filter(|it| it.starts_with("template")).count()
    }
}

fn version(object: &DynamicObject) -> String {
    let uid = object.uid().unwrap_or_default();
    format!("{uid} {}", object.resource_version().unwrap_or_default())
}
