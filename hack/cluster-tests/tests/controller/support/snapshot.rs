//! All domains and templates of the test as they are, to see that nobody writes them.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use kube::ResourceExt as _;
use kube::api::ListParams;

use super::Fixture;

/// UID and resource version of each object, by kind, namespace and name.
pub(crate) type Snapshot = BTreeMap<String, (String, String)>;

impl Fixture {
    pub(crate) async fn snapshot(&self) -> Result<Snapshot> {
        let mut objects = Snapshot::new();
        for namespace in self.namespaces() {
            for (kind, api) in [
                ("domain", self.domains(&namespace)),
                ("template", self.templates(&namespace)),
            ] {
                for object in api.list(&ListParams::default()).await? {
                    let name = format!("{kind} {namespace}/{}", object.name_any());
                    let version = object.resource_version().unwrap_or_default();
                    objects.insert(name, (object.uid().unwrap_or_default(), version));
                }
            }
        }
        Ok(objects)
    }

    /// Fails if an object was written, made or removed since.
    pub(crate) async fn is_unchanged_since(&self, before: &Snapshot) -> Result<()> {
        let now = self.snapshot().await?;
        let lost = before.iter().filter(|(name, _)| !now.contains_key(*name));
        let lost: Vec<_> = lost.map(|(name, _)| name).collect();
        ensure!(lost.is_empty(), "gone: {lost:?}");
        let changed = now
            .iter()
            .filter(|(name, it)| before.get(*name) != Some(it));
        let changed: Vec<_> = changed.collect();
        ensure!(changed.is_empty(), "written or new: {changed:?}");
        Ok(())
    }
}
