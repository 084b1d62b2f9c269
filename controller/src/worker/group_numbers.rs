//! Checks whether `ComputeDomains` can be assigned the channels of groups while group claims are disabled: before the
//! first channel is assigned, and periodically while they cannot.

use std::time::Duration;

use compute_domain_api::GROUP_CHANNELS;
use compute_domain_core::{GroupStep, GroupUse};
use dra_common::error_chain;
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::api_client::{ApiClient, RequestError};
use crate::wake::wake_at;

/// Pause between two checks while claims may have a channel of a group.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Limit of writes per check.
const MOST_STEPS: usize = 6;

/// Schedule and result of the checks.
#[derive(Debug)]
pub(super) struct GroupNumbers {
    /// Time of the next check; `None` if no more is needed, or one is running.
    next_check: Option<Instant>,
    /// Whether the Lease was seen, and not deleted by this controller.
    expected: bool,
}

/// Result of a check.
#[derive(Debug)]
pub(super) enum GroupChannels {
    /// `ComputeDomains` can be assigned the channels.
    Free,
    /// They cannot.
    Reserved,
    /// The check failed.
    Unknown,
}

// === impl GroupNumbers ===

impl GroupNumbers {
    /// `looks`: whether to check. If not, group claims are enabled, or `ComputeDomains` do not have their own
    /// channels.
    pub(super) fn new(looks: bool) -> Self {
        Self {
            next_check: looks.then(Instant::now),
            expected: false,
        }
    }

    /// Returns when a check is due.
    pub(super) async fn wait(&self) {
        wake_at(self.next_check).await;
    }

    /// Starts a check.
    pub(super) fn look(
        &mut self,
        api: &ApiClient,
        now: fn() -> Timestamp,
    ) -> impl Future<Output = GroupChannels> + use<> {
        self.next_check = None;
        let (api, expected) = (api.clone(), self.expected);
        async move {
            let looked = look(&api, expected, now).await;
            looked.unwrap_or_else(|err| {
                let error = error_chain(&err);
                warn!(
                    error,
                    "cannot check whether group claims still use channels; until the check succeeds, ComputeDomains do not get the channels for group claims"
                );
                GroupChannels::Unknown
            })
        }
    }

    /// Stores the result. Returns the first channel that `ComputeDomains` can be assigned.
    pub(super) fn seen(&mut self, seen: &GroupChannels) -> u32 {
        match seen {
            GroupChannels::Free => *GROUP_CHANNELS.start(),
            GroupChannels::Reserved | GroupChannels::Unknown => {
                self.expected |= matches!(seen, GroupChannels::Reserved);
                self.next_check = Some(Instant::now() + CHECK_INTERVAL);
                GROUP_CHANNELS.end().saturating_add(1)
            }
        }
    }
}

async fn look(
    api: &ApiClient,
    mut expected: bool,
    now: fn() -> Timestamp,
) -> Result<GroupChannels, RequestError> {
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
            (GroupStep::Done, _) => return Ok(GroupChannels::Free),
            (GroupStep::Wait, _) => break,
            (GroupStep::FindClaims, _) => {
                let in_use = api.cliques_in_use().await?;
                used = if in_use.is_empty() {
                    GroupUse::Nothing
                } else {
                    info!(
                        cliques = in_use.len(),
                        "group claims are disabled, but existing group claims still use channels; ComputeDomains do not get the channels for group claims yet"
                    );
                    GroupUse::Claims
                };
            }
            (GroupStep::Create(lease), _) => drop(api.create_lease(&lease).await?),
            (GroupStep::Change(patch), _) => api.change_group_lease(patch).await?,
            (GroupStep::Delete, Some(lease)) => {
                api.delete_group_lease(&lease).await?;
                info!(
                    "no group claim uses a channel any more; the channels for group claims are now available to ComputeDomains"
                );
                expected = false;
            }
            (GroupStep::Delete, None) => {}
        }
    }
    Ok(GroupChannels::Reserved)
}
