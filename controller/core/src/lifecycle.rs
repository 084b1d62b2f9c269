//! The life of a ComputeDomain as a state machine.
//!
//! A [`State`] comes from the ComputeDomain itself: whether it exists, whether it is being deleted, whether it has
//! our finalizer, and what its status reports. An [`Event`] is what a reconcile finds out besides: that it was
//! deleted, that it has to be rejected, the state of its template, or the state of the `Lease` of its own IMEX
//! channel. Only [`State::on`] decides what to do. An [`Action`] is at most one API request. When it has succeeded,
//! the ComputeDomain is in the state [`Transition::next`].

/// The state of a ComputeDomain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It has neither our finalizer nor a status that rejects it.
    New,
    /// It does not have our finalizer; its status reports why it is rejected.
    Rejected,
    /// It has our finalizer. The status is not written yet, or reports why the ComputeDomain is now rejected.
    Finalized,
    /// It has our finalizer, and its status reports `Ready`.
    Admitted,
    /// It is being deleted and has our finalizer, which keeps it until its template is deleted.
    Deleting,
    /// It is being deleted and does not have our finalizer. Once no other finalizer is left, the API server
    /// removes it.
    Gone,
    /// The watch does not have it, but may be stale.
    Missing,
    /// The API server does not have it, and never will again: UIDs are not reused.
    Absent,
}

/// What a reconcile finds out about a ComputeDomain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// It was deleted: its deletion timestamp is set.
    Deleted,
    /// There is a reason not to admit it. Otherwise, and for a ComputeDomain that is being deleted, the state of
    /// its template is the event.
    Rejected,
    /// It has no template.
    TemplateAbsent,
    /// The watch has no template of it, but the template may have lost its label.
    TemplateUnseen,
    /// It has a template.
    TemplatePresent,
    /// The template with its labels differs from the one that we create: in device class, request name or
    /// config.
    TemplateAltered,
    /// Its template is being deleted and has our finalizer.
    TemplateTerminating,
    /// Its template is being deleted, and only other finalizers keep it.
    TemplateBlocked,
    /// It has no channel, and one is free for it.
    ChannelWanted,
    /// It holds the Lease of a channel that is not in its status.
    ChannelUnreported,
    /// The channel in its status has no Lease.
    ChannelLost,
    /// The Lease of a channel that it uses is released.
    ChannelUsedAgain,
    /// It holds the Lease of a channel that it does not use.
    ChannelUnused,
    /// It holds the Lease of a channel that it does not use, and the cool-down after the release is over.
    ChannelCooled,
    /// Another client has deleted one of its Leases before the end of the cool-down.
    LeaseLost,
}

/// What the controller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Nothing.
    Nothing,
    /// Add our finalizer to the ComputeDomain.
    AddFinalizer,
    /// Create the template, which has our finalizer from the start.
    CreateTemplate,
    /// Write the status `Ready`.
    ReportAdmission,
    /// Remove our finalizer from the ComputeDomain.
    RemoveFinalizer,
    /// Read the ComputeDomain from the API server, to see whether it exists.
    LookUpDomain,
    /// Read the template from the API server, to see whether it exists.
    LookUpTemplate,
    /// Send the event's request: [`Event::resolution`].
    Resolve,
}

/// The effect of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// What the controller does.
    pub action: Action,
    /// The state after the action.
    pub next: State,
}

// === impl State ===

impl State {
    /// All states, in the order of a life.
    pub const ALL: [Self; 8] = [
        Self::New,
        Self::Rejected,
        Self::Finalized,
        Self::Admitted,
        Self::Deleting,
        Self::Gone,
        Self::Missing,
        Self::Absent,
    ];

    /// The state's name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Rejected => "rejected",
            Self::Finalized => "finalized",
            Self::Admitted => "admitted",
            Self::Deleting => "deleting",
            Self::Gone => "gone",
            Self::Missing => "missing",
            Self::Absent => "absent",
        }
    }

    /// The action and the next state for an event in this state.
    ///
    /// # Guarantees
    ///
    /// * The ComputeDomain has our finalizer before the template is created and until no template is left.
    /// * A rejected ComputeDomain gets no template. An existing template stays, because pods may use it.
    /// * A deletion is never undone. It depends only on the template's own state.
    /// * No orphaned template stays. A crash, a late request or a finalizer that was removed by hand leads to
    ///   [`State::Absent`], in which our template is deleted.
    /// * A channel is in the status only after its Lease was created, and before the template exists. A Lease is
    ///   released only when its ComputeDomain is known to be deleted or to have another channel.
    /// * Repeated until the template needs nothing more, every life ends admitted, rejected, gone or absent,
    ///   unless other finalizers block the template.
    // req: CD-5, CD-18
    pub const fn on(self, event: Event) -> Transition {
        use Event::{
            ChannelCooled, ChannelLost, ChannelUnreported, ChannelUnused, ChannelUsedAgain,
            ChannelWanted, LeaseLost, TemplateAbsent, TemplateAltered, TemplateBlocked,
            TemplatePresent, TemplateTerminating, TemplateUnseen,
        };
        use State::{Absent, Admitted, Deleting, Finalized, Gone, Missing, New, Rejected};

        let (action, next) = match (self, event) {
            (New | Rejected, Event::Deleted) | (Gone, TemplateAbsent | TemplateUnseen) => {
                (Action::Nothing, Gone)
            }
            (Finalized | Admitted, Event::Deleted) => (Action::Nothing, Deleting),
            (New | Rejected, Event::Rejected) => (Action::Resolve, Rejected),
            (Finalized | Admitted, Event::Rejected | ChannelUnreported) => {
                (Action::Resolve, Finalized)
            }
            // Admission and channel do not matter once the ComputeDomain is being deleted.
            (
                Deleting | Gone | Missing | Absent,
                Event::Deleted | Event::Rejected | ChannelWanted | ChannelUnreported,
            )
            // We do not delete templates of other owners.
            | (
                Missing | Absent,
                TemplateAbsent | TemplateUnseen | TemplateAltered | TemplateBlocked,
            )
            // A new Lease would protect nothing.
            | (Gone | Missing | Absent, ChannelLost) => (Action::Nothing, self),

            // A deletion cannot be undone, so the watch is not proof enough.
            (Missing, TemplatePresent | TemplateTerminating | ChannelUnused | ChannelCooled) => {
                (Action::LookUpDomain, Absent)
            }
            // After `LeaseLost`, a later reconcile finds out whether the channel is used.
            (_, ChannelUnused | ChannelCooled | ChannelUsedAgain | LeaseLost) => {
                (Action::Resolve, self)
            }

            // The finalizer comes first in every case, so that a deletion waits from now on.
            (New | Rejected, _) => (Action::AddFinalizer, Finalized),
            // If the template exists without the label, the response shows that.
            (Finalized | Admitted, TemplateAbsent | TemplateUnseen) => {
                (Action::CreateTemplate, self)
            }
            (Finalized | Admitted, TemplatePresent) => (Action::ReportAdmission, Admitted),
            (Deleting, TemplateAbsent) => (Action::RemoveFinalizer, Gone),
            (Deleting, TemplateUnseen) => (Action::LookUpTemplate, self),
            // A template is immutable: it is deleted and created again. The template of an admitted
            // ComputeDomain may also be terminating because a user deleted it.
            (Finalized | Admitted, ChannelWanted | TemplateAltered)
            | (Deleting | Gone, TemplatePresent | TemplateAltered)
            | (Absent, TemplatePresent)
            | (_, ChannelLost | TemplateTerminating | TemplateBlocked) => (Action::Resolve, self),
        };
        Transition { action, next }
    }
}

// === impl Event, Action ===

impl Event {
    /// All events.
    pub const ALL: [Self; 15] = [
        Self::Deleted,
        Self::Rejected,
        Self::TemplateAbsent,
        Self::TemplateUnseen,
        Self::TemplatePresent,
        Self::TemplateAltered,
        Self::TemplateTerminating,
        Self::TemplateBlocked,
        Self::ChannelWanted,
        Self::ChannelUnreported,
        Self::ChannelLost,
        Self::ChannelUsedAgain,
        Self::ChannelUnused,
        Self::ChannelCooled,
        Self::LeaseLost,
    ];

    /// The event's name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Rejected => "reason to reject",
            Self::TemplateAbsent => "no template",
            Self::TemplateUnseen => "template not seen",
            Self::TemplatePresent => "template exists",
            Self::TemplateAltered => "template altered",
            Self::TemplateTerminating => "template terminating",
            Self::TemplateBlocked => "template blocked by other finalizers",
            Self::ChannelWanted => "channel wanted",
            Self::ChannelUnreported => "channel not in the status",
            Self::ChannelLost => "channel without Lease",
            Self::ChannelUsedAgain => "released channel used again",
            Self::ChannelUnused => "channel not used",
            Self::ChannelCooled => "channel not used for long",
            Self::LeaseLost => "Lease deleted by another client",
        }
    }

    /// The action [`Action::Resolve`] for the event, as tables show it.
    pub const fn resolution(self) -> &'static str {
        match self {
            // Another action follows, or none.
            Self::Deleted | Self::TemplateAbsent | Self::TemplateUnseen => "nothing",
            Self::Rejected => "write the reason into the status",
            Self::TemplatePresent | Self::TemplateAltered => "delete the template",
            Self::TemplateTerminating => "remove the template's finalizer",
            // Until others have removed their finalizers.
            Self::TemplateBlocked => "wait",
            // The request fails if the Lease exists by now.
            Self::ChannelWanted => "create a channel's Lease",
            Self::ChannelUnreported => "write the channel into the status",
            // With a mark that it was created again.
            Self::ChannelLost => "create the Lease again",
            Self::ChannelUsedAgain => "take the Lease back",
            // With the time from which the channel is unused.
            Self::ChannelUnused => "release the Lease",
            Self::ChannelCooled => "delete the Lease",
            Self::LeaseLost => "recreate the Lease unchanged",
        }
    }
}

impl Action {
    /// The action for this event, as tables show it.
    pub const fn name(self, event: Event) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::AddFinalizer => "add the finalizer",
            Self::CreateTemplate => "create the template",
            Self::ReportAdmission => "write status Ready",
            Self::RemoveFinalizer => "remove the finalizer",
            Self::LookUpDomain => "look up the ComputeDomain",
            Self::LookUpTemplate => "look up the template",
            Self::Resolve => event.resolution(),
        }
    }
}

#[cfg(test)]
mod tests;
