//! Whether `ComputeDomains` can be given the channels of groups, where group claims are switched off:
//! looked at before the first channel is given, and again for as long as they cannot.

use std::time::Duration;

use compute_domain_api::GROUP_CHANNELS;
use compute_domain_core::{GroupStep, GroupUse};
use dra_common::error_chain;
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::api_client::{ApiClient, RequestError};
use crate::wake::wake_at;

/// The pause between two looks, while somebody may have a channel of a group.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// No look needs more requests that change something.
const MOST_STEPS: usize = 6;

/// When they are looked at, and what was seen.
#[derive(Debug)]
pub(super) struct GroupNumbers {
    /// When they are looked at; `None`: not any more, or a look is on its way.
    look_at: Option<Instant>,
    /// Whether the Lease was seen, and was not deleted by us.
    expected: bool,
}

/// What a look has found.
#[derive(Debug)]
pub(super) enum Seen {
    /// The channels are those of `ComputeDomains`.
    Free,
    /// They are not.
    Reserved,
    /// It could not be found out.
    Unknown,
}

// === impl GroupNumbers ===

impl GroupNumbers {
    /// `looks`: whether they are to be looked at. If not, group claims are switched on, or no ComputeDomain
    /// has a channel of its own.
    pub(super) fn new(looks: bool) -> Self {
        Self {
            look_at: looks.then(Instant::now),
            expected: false,
        }
    }

    /// Ends when they are to be looked at.
    pub(super) async fn wait(&self) {
        wake_at(self.look_at).await;
    }

    /// Looks at them.
    pub(super) fn look(
        &mut self,
        api: &ApiClient,
        now: fn() -> Timestamp,
    ) -> impl Future<Output = Seen> + use<> {
        self.look_at = None;
        let (api, expected) = (api.clone(), self.expected);
        async move {
            let looked = look(&api, expected, now).await;
            looked.unwrap_or_else(|err| {
                let error = error_chain(&err);
                warn!(
                    error,
                    "whether groups have channels is not known; ComputeDomains are given none of theirs"
                );
                Seen::Unknown
            })
        }
    }

    /// Returns the first channel that `ComputeDomains` can be given.
    pub(super) fn seen(&mut self, seen: &Seen) -> u32 {
        match seen {
            Seen::Free => *GROUP_CHANNELS.start(),
            Seen::Reserved | Seen::Unknown => {
                self.expected |= matches!(seen, Seen::Reserved);
                self.look_at = Some(Instant::now() + LOOK_AGAIN);
                GROUP_CHANNELS.end().saturating_add(1)
            }
        }
    }
}

async fn look(
    api: &ApiClient,
    mut expected: bool,
    now: fn() -> Timestamp,
) -> Result<Seen, RequestError> {
    let pools = api.has_group_pools().await?;
    let mut used = if pools {
        GroupUse::Pools
    } else {
        GroupUse::NoPools
    };
    for _ in 0..MOST_STEPS {
        let lease = api.get_group_lease().await?;
        expected |= lease.is_some();
        match (
            GroupStep::next(lease.as_ref(), expected, used, now()),
            lease,
        ) {
            (GroupStep::Done, _) => return Ok(Seen::Free),
            (GroupStep::Wait, _) => break,
            (GroupStep::FindClaims, _) => {
                let in_use = api.cliques_in_use().await?;
                used = if in_use.is_empty() {
                    GroupUse::Nothing
                } else {
                    info!(
                        cliques = in_use.len(),
                        "group claims are switched off, and claims still have channels of groups: ComputeDomains are given none of these"
                    );
                    GroupUse::Claims
                };
            }
            (GroupStep::Create(lease), _) => drop(api.create_lease(&lease).await?),
            (GroupStep::Change(patch), _) => api.change_group_lease(patch).await?,
            (GroupStep::Delete, Some(lease)) => {
                api.delete_group_lease(&lease).await?;
                info!("nobody has a channel of a group any more: they are those of ComputeDomains");
                expected = false;
            }
            (GroupStep::Delete, None) => {}
        }
    }
    Ok(Seen::Reserved)
}
