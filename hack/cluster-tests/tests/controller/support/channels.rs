//! Channels of domains, and the Leases that record their owners.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use serde_json::json;

use super::{Fixture, state};

/// All observed channels by UID of the domain.
#[derive(Default)]
pub(crate) struct Channels(BTreeMap<String, u64>);

/// `status.channel`, if there is one.
pub(crate) fn channel(domain: &DynamicObject) -> Option<u64> {
    domain.data.pointer("/status/channel")?.as_u64()
}

impl Channels {
    /// Checks all domains of the test. Fails if a domain's channel has changed, or if two Ready domains have the
    /// same one.
    pub(crate) async fn check_all(&mut self, on: &Fixture) -> Result<()> {
        let mut ready = BTreeMap::new();
        for namespace in on.namespaces() {
            for domain in on.domains(&namespace).list(&ListParams::default()).await? {
                let (uid, name) = (domain.uid().unwrap_or_default(), domain.name_any());
                let Some(number) = channel(&domain) else {
                    continue;
                };
                let before = *self.0.entry(uid).or_insert(number);
                ensure!(
                    before == number,
                    "{name} had channel {before}, now {number}"
                );
                if state(&domain) == Some("Ready") && number > 0 {
                    let other = ready.insert(number, name.clone());
                    ensure!(
                        other.is_none(),
                        "{name} and {other:?} both have channel {number}"
                    );
                }
            }
        }
        Ok(())
    }
}

impl Fixture {
    pub(crate) fn leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The channel of a Ready domain; fails if its Lease does not name the domain.
    pub(crate) async fn confirmed_channel(&self, name: &str) -> Result<u64> {
        self.is_ready(name).await?;
        let domain = self.get(name).await?;
        let number = channel(&domain).context("no channel")?;
        let lease = self
            .leases()
            .get(&format!("imex-channel-{number:04}"))
            .await?;
        let spec = lease.spec.context("an empty lease")?;
        ensure!(
            spec.holder_identity == domain.metadata.uid && spec.renew_time.is_none(),
            "{spec:?}"
        );
        Ok(number)
    }

    /// Ends the ten minutes of cool-down of a released channel.
    pub(crate) async fn end_cool_down(&self, number: u64) -> Result<()> {
        self.end_lease_cool_down(&format!("imex-channel-{number:04}"))
            .await
    }

    /// Ends the ten minutes of cool-down of a released Lease.
    pub(crate) async fn end_lease_cool_down(&self, name: &str) -> Result<()> {
        let long_ago = Timestamp::now() - SignedDuration::from_secs(601);
        let long_ago = format!("{long_ago:.6}");
        let patch = Patch::Merge(json!({"spec": {"renewTime": long_ago}}));
        self.leases()
            .patch(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// The names of the channels' Leases, and whether each is released.
    pub(crate) async fn channel_leases(&self) -> Result<BTreeMap<String, bool>> {
        let leases = self.leases().list(&ListParams::default()).await?;
        let of_channels = leases
            .into_iter()
            .filter(|lease| lease.name_any().starts_with("imex-channel-"));
        let is_released = |lease: Lease| {
            let name = lease.name_any();
            (
                name,
                lease.spec.is_some_and(|spec| spec.renew_time.is_some()),
            )
        };
        Ok(of_channels.map(is_released).collect())
    }
}
