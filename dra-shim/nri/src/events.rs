//! Sets of events, for a plugin's subscription.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// A set of events. `Events::CREATE_CONTAINER | Events::REMOVE_CONTAINER` has two.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Events(i32);

/// NRI's names in the order of its enumeration: the event with number N is bit N-1.
const NAMES: [&str; 14] = [
    "RunPodSandbox",
    "StopPodSandbox",
    "RemovePodSandbox",
    "CreateContainer",
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
    "UpdateContainer",
    "PostUpdateContainer",
    "StopContainer",
    "RemoveContainer",
    "UpdatePodSandbox",
    "PostUpdatePodSandbox",
    "ValidateContainerAdjustment",
];

// === impl Events ===

impl Events {
    /// No event. A plugin cannot subscribe to this: for NRI it means all events.
    pub const NONE: Self = Self(0);
    /// [`run_pod_sandbox`](crate::Plugin::run_pod_sandbox)
    pub const RUN_POD_SANDBOX: Self = Self(1);
    /// [`stop_pod_sandbox`](crate::Plugin::stop_pod_sandbox)
    pub const STOP_POD_SANDBOX: Self = Self(1 << 1);
    /// [`remove_pod_sandbox`](crate::Plugin::remove_pod_sandbox)
    pub const REMOVE_POD_SANDBOX: Self = Self(1 << 2);
    /// [`create_container`](crate::Plugin::create_container)
    pub const CREATE_CONTAINER: Self = Self(1 << 3);
    /// [`post_create_container`](crate::Plugin::post_create_container)
    pub const POST_CREATE_CONTAINER: Self = Self(1 << 4);
    /// [`start_container`](crate::Plugin::start_container)
    pub const START_CONTAINER: Self = Self(1 << 5);
    /// [`post_start_container`](crate::Plugin::post_start_container)
    pub const POST_START_CONTAINER: Self = Self(1 << 6);
    /// [`update_container`](crate::Plugin::update_container)
    pub const UPDATE_CONTAINER: Self = Self(1 << 7);
    /// [`post_update_container`](crate::Plugin::post_update_container)
    pub const POST_UPDATE_CONTAINER: Self = Self(1 << 8);
    /// [`stop_container`](crate::Plugin::stop_container)
    pub const STOP_CONTAINER: Self = Self(1 << 9);
    /// [`remove_container`](crate::Plugin::remove_container)
    pub const REMOVE_CONTAINER: Self = Self(1 << 10);
    /// [`update_pod_sandbox`](crate::Plugin::update_pod_sandbox); NRI 0.10
    pub const UPDATE_POD_SANDBOX: Self = Self(1 << 11);
    /// [`post_update_pod_sandbox`](crate::Plugin::post_update_pod_sandbox); NRI 0.10
    pub const POST_UPDATE_POD_SANDBOX: Self = Self(1 << 12);
    /// [`validate`](crate::Plugin::validate); NRI 0.10
    pub const VALIDATE: Self = Self(1 << 13);

    /// Events of every NRI version with this protocol.
    pub(crate) const SINCE_0_2: Self = Self((1 << 11) - 1);
    /// Events since NRI 0.10.
    pub(crate) const SINCE_0_10: Self = Self((1 << 14) - 1);

    /// Every event that this library knows.
    pub const ALL: Self = Self::SINCE_0_10;

    /// The mask for the answer to `Configure`.
    pub(crate) const fn mask(self) -> i32 {
        self.0
    }

    /// The events of a subscription's mask; `None` if a bit is no event.
    #[cfg(feature = "testing")]
    pub(crate) const fn from_mask(mask: i32) -> Option<Self> {
        if mask & !Self::ALL.0 == 0 {
            Some(Self(mask))
        } else {
            None
        }
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the set has all events of `other`.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The events in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The events of this set that are not in `other`.
    #[must_use]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for Events {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Events {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}

/// NRI's names: `CreateContainer, RemoveContainer`; `none` for the empty set.
impl fmt::Display for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let names = NAMES.iter().enumerate();
        let names = names.filter(|(bit, _)| self.0 & (1 << bit) != 0);
        for (at, (_, name)) in names.enumerate() {
            f.write_str(if at == 0 { "" } else { ", " })?;
            f.write_str(name)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Events({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::generated::Event;

    #[test]
    fn each_event_is_the_bit_of_its_number_in_the_protocol() {
        let bit = |event: Event| Events(1 << (event as i32 - 1));
        for (event, constant) in [
            (Event::RunPodSandbox, Events::RUN_POD_SANDBOX),
            (Event::StopPodSandbox, Events::STOP_POD_SANDBOX),
            (Event::RemovePodSandbox, Events::REMOVE_POD_SANDBOX),
            (Event::CreateContainer, Events::CREATE_CONTAINER),
            (Event::PostCreateContainer, Events::POST_CREATE_CONTAINER),
            (Event::StartContainer, Events::START_CONTAINER),
            (Event::PostStartContainer, Events::POST_START_CONTAINER),
            (Event::UpdateContainer, Events::UPDATE_CONTAINER),
            (Event::PostUpdateContainer, Events::POST_UPDATE_CONTAINER),
            (Event::StopContainer, Events::STOP_CONTAINER),
            (Event::RemoveContainer, Events::REMOVE_CONTAINER),
            (Event::UpdatePodSandbox, Events::UPDATE_POD_SANDBOX),
            (Event::PostUpdatePodSandbox, Events::POST_UPDATE_POD_SANDBOX),
            (Event::ValidateContainerAdjustment, Events::VALIDATE),
        ] {
            assert_eq!(bit(event), constant);
            assert!(Events::ALL.contains(constant));
            let name = constant.to_string();
            let in_the_protocol = event.as_str_name().replace('_', "");
            assert_eq!(name.to_uppercase(), in_the_protocol);
        }
        assert_eq!(Events::ALL.mask() + 1, 1 << (Event::Last as i32 - 1));
    }

    #[test]
    fn a_set_is_displayed_as_the_names_of_its_events() {
        let two = Events::REMOVE_CONTAINER | Events::CREATE_CONTAINER;
        assert_eq!(two.to_string(), "CreateContainer, RemoveContainer");
        assert_eq!(
            two.difference(Events::CREATE_CONTAINER),
            Events::REMOVE_CONTAINER
        );
        assert_eq!(Events::NONE.to_string(), "none");
    }
}
