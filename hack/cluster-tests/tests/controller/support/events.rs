//! Events about domains.

use anyhow::{Context as _, Result};
use cluster_tests::until;
use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, ListParams};

use super::Fixture;

impl Fixture {
    /// Waits for an event with this reason about a domain of the test's first namespace, and returns
    /// its note.
    pub(crate) async fn until_event(&self, domain: &str, reason: &str) -> String {
        until(&format!("{domain} has an event {reason}"), async || {
            let events = self.events(&self.namespace).await?;
            let about = events.iter().filter(|event| {
                let regarding = event.regarding.as_ref();
                regarding.and_then(|it| it.name.as_deref()) == Some(domain)
            });
            let reasons: Vec<_> = about
                .map(|it| (it.reason.clone(), it.note.clone()))
                .collect();
            let found = reasons
                .iter()
                .find(|(it, _)| it.as_deref() == Some(reason))
                .and_then(|(_, note)| note.clone());
            found.with_context(|| format!("there are {reasons:?}"))
        })
        .await
    }

    /// Whether there is an event with this reason about the domain.
    pub(crate) async fn has_event(&self, domain: &str, reason: &str) -> Result<bool> {
        let start = format!("{domain}: {reason}: ");
        let lines = self.all_events(&self.namespace).await?;
        Ok(lines.iter().any(|line| line.starts_with(&start)))
    }

    /// The events of a namespace as lines.
    pub(super) async fn all_events(&self, namespace: &str) -> Result<Vec<String>> {
        let events = self.events(namespace).await?;
        let line = |event: Event| {
            let regarding = event.regarding.and_then(|it| it.name).unwrap_or_default();
            let reason = event.reason.unwrap_or_default();
            format!("{regarding}: {reason}: {}", event.note.unwrap_or_default())
        };
        Ok(events.into_iter().map(line).collect())
    }

    async fn events(&self, namespace: &str) -> Result<Vec<Event>> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        Ok(events.list(&ListParams::default()).await?.items)
    }
}
