//! The `Lease` that reserves the group channels while group claims are switched on, and afterwards until none of
//! them is in use.
//!
//! | Lease | the group channels can be assigned to |
//! |---|---|
//! | none | `ComputeDomains` |
//! | exists | group claims |
//! | released less than a cool-down ago | none |
//!
//! It is created before the first pool of group channels. It is released when neither a pool nor a claim
//! allocated from one is left.

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::channel_lease::{COOL_DOWN, after_cool_down};

/// Its name, in the driver's namespace. No channel's Lease has it.
pub const GROUP_LEASE: &str = "imex-channels-of-groups";

/// The holder in the Lease.
const HOLDER: &str = "group claims";

/// The observed Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLease {
    uid: Box<str>,
    resource_version: Box<str>,
    /// An unreadable time counts as one in the far future, and is written again.
    released: Option<Timestamp>,
}

/// The current use of the group channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupUse {
    /// Pools exist.
    Pools,
    /// No pools exist. Whether claims are allocated from former pools is not known.
    NoPools,
    /// No pools exist, but claims are allocated from former pools.
    Claims,
    /// Neither pools nor such claims exist.
    Nothing,
}

/// The next step while group claims are switched off.
#[derive(Clone, Debug, PartialEq)]
pub enum GroupStep {
    /// Nothing more: `ComputeDomains` can have the channels.
    Done,
    /// Wait until the channels are unused or the cool-down ends.
    Wait,
    /// Find out whether claims are allocated from group channels.
    FindClaims,
    /// Create the Lease.
    Create(Box<Lease>),
    /// Change the Lease with this merge patch, which fails if it has changed.
    Change(Value),
    /// Delete the Lease. This is the last step.
    Delete,
}

// === impl GroupLease ===

impl GroupLease {
    /// Takes the metadata of the Lease and its `spec.renewTime`, if it has one.
    pub fn new(metadata: &ObjectMeta, renew_time: Option<&str>) -> Self {
        let text = |field: &Option<String>| field.as_deref().unwrap_or_default().into();
        Self {
            uid: text(&metadata.uid),
            resource_version: text(&metadata.resource_version),
            released: renew_time.map(|time| time.parse().unwrap_or(Timestamp::MAX)),
        }
    }

    /// The Lease as it is created.
    pub fn created(now: Timestamp) -> Lease {
        Lease {
            metadata: ObjectMeta {
                name: Some(GROUP_LEASE.to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(HOLDER.to_owned()),
                acquire_time: Some(MicroTime(now)),
                ..LeaseSpec::default()
            }),
        }
    }

    /// Its UID.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Its version.
    pub fn resource_version(&self) -> &str {
        &self.resource_version
    }

    /// The patch that takes it back, if it is released: group claims are switched on.
    pub fn taken_back(&self) -> Option<Value> {
        self.released.is_some().then(|| self.patch(None))
    }

    /// A merge patch, which the API server refuses if the Lease has changed.
    fn patch(&self, released: Option<Timestamp>) -> Value {
        json!({
            "metadata": { "uid": self.uid, "resourceVersion": self.resource_version },
            "spec": {
                "renewTime": released.map(MicroTime),
                "leaseDurationSeconds": released.map(|_| COOL_DOWN.as_secs()),
            },
        })
    }
}

// === impl GroupStep ===

impl GroupStep {
    /// Decides the next step. `expected`: the Lease existed before, and we have not deleted it.
    // req: CHANNEL-19
    pub fn next(
        lease: Option<&GroupLease>,
        expected: bool,
        used: GroupUse,
        now: Timestamp,
    ) -> Self {
        let Some(lease) = lease else {
            return match used {
                GroupUse::NoPools | GroupUse::Nothing if !expected => Self::Done,
                _ => Self::Create(Box::new(GroupLease::created(now))),
            };
        };
        let due = match lease.released {
            None => true,
            // A future time was written by hand or with a wrong clock.
            Some(at) => at > now || after_cool_down(at) <= now,
        };
        match (used, lease.released) {
            (GroupUse::Pools | GroupUse::Claims, None) => Self::Wait,
            (GroupUse::Pools | GroupUse::Claims, Some(_)) => Self::Change(lease.patch(None)),
            (GroupUse::NoPools, _) if due => Self::FindClaims,
            (GroupUse::NoPools | GroupUse::Nothing, _) if !due => Self::Wait,
            (_, Some(at)) if at <= now => Self::Delete,
            _ => Self::Change(lease.patch(Some(now))),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::SignedDuration;

    use super::*;

    fn now() -> Timestamp {
        "2026-01-02T03:04:05Z".parse().unwrap()
    }

    /// A Lease that was released this many seconds ago.
    fn released(seconds: i64) -> GroupLease {
        let at = now() - SignedDuration::from_secs(seconds);
        GroupLease::new(&ObjectMeta::default(), Some(&at.to_string()))
    }

    fn held() -> GroupLease {
        GroupLease::new(&ObjectMeta::default(), None)
    }

    fn next(lease: Option<&GroupLease>, expected: bool, used: GroupUse) -> GroupStep {
        GroupStep::next(lease, expected, used, now())
    }

    fn is_release(step: &GroupStep) -> bool {
        matches!(step, GroupStep::Change(patch) if !patch["spec"]["renewTime"].is_null())
    }

    fn takes_back(step: &GroupStep) -> bool {
        matches!(step, GroupStep::Change(patch) if patch["spec"]["renewTime"].is_null())
    }

    #[test]
    fn without_a_lease_the_channels_are_those_of_domains_unless_there_are_pools_or_it_was_deleted()
    {
        assert_eq!(next(None, false, GroupUse::NoPools), GroupStep::Done);
        for (expected, used) in [
            (false, GroupUse::Pools),
            (true, GroupUse::Pools),
            (true, GroupUse::NoPools),
        ] {
            let step = next(None, expected, used);
            let GroupStep::Create(lease) = step else {
                panic!("{step:?}");
            };
            assert_eq!(lease.metadata.name.as_deref(), Some(GROUP_LEASE));
            let spec = lease.spec.unwrap();
            assert_eq!(spec.holder_identity.as_deref(), Some(HOLDER));
            assert_eq!(spec.acquire_time, Some(MicroTime(now())));
            assert_eq!(spec.renew_time, None);
        }
    }

    #[test]
    fn it_is_released_only_when_neither_pools_nor_claims_are_left_and_goes_after_a_cool_down() {
        assert_eq!(next(Some(&held()), true, GroupUse::Pools), GroupStep::Wait);
        let unknown = next(Some(&held()), true, GroupUse::NoPools);
        assert_eq!(unknown, GroupStep::FindClaims);
        assert_eq!(next(Some(&held()), true, GroupUse::Claims), GroupStep::Wait);
        assert!(is_release(&next(Some(&held()), true, GroupUse::Nothing)));

        assert_eq!(
            next(Some(&released(599)), true, GroupUse::NoPools),
            GroupStep::Wait
        );
        let cooled = next(Some(&released(600)), true, GroupUse::NoPools);
        assert_eq!(cooled, GroupStep::FindClaims);
        assert_eq!(
            next(Some(&released(600)), true, GroupUse::Nothing),
            GroupStep::Delete
        );
    }

    #[test]
    fn a_release_is_taken_back_if_a_channel_is_used_and_one_in_the_future_counts_from_now() {
        for used in [GroupUse::Pools, GroupUse::Claims] {
            assert!(
                takes_back(&next(Some(&released(700)), true, used)),
                "{used:?}"
            );
        }
        for time in ["9999-12-31T23:59:59.000000Z", "2999-01-01T00:00:00Z"] {
            let ahead = GroupLease::new(&ObjectMeta::default(), Some(time));
            let step = next(Some(&ahead), true, GroupUse::NoPools);
            assert_eq!(step, GroupStep::FindClaims, "{time}");
            assert!(
                is_release(&next(Some(&ahead), true, GroupUse::Nothing)),
                "{time}"
            );
        }
        assert_eq!(held().taken_back(), None);
        assert!(released(5).taken_back().is_some());
    }
}
