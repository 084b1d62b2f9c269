//! The life of a ComputeDomain as a state machine.
//!
//! A [`State`] is what the ComputeDomain itself shows: whether it is being deleted, whether it has
//! our finalizer, what its status reports, or that it does not exist. An [`Event`] is what a
//! reconcile finds out besides: that it has been deleted, that it has to be rejected, how its
//! template is, or, where every ComputeDomain has an IMEX channel of its own, how the `Lease` is that
//! makes a channel its own. [`State::on`] is the only place that knows what to do then. An [`Action`] is at most
//! one API request; when it has succeeded, the ComputeDomain is in the state that
//! [`Transition::next`] names.

/// What a ComputeDomain shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It has neither our finalizer nor a status that rejects it.
    New,
    /// It does not have our finalizer; its status reports why it is rejected.
    Rejected,
    /// It has our finalizer. Either the status was not written yet, or it reports why the
    /// ComputeDomain is rejected now.
    Finalized,
    /// It has our finalizer, and its status reports `Ready`.
    Admitted,
    /// It is being deleted and has our finalizer, which keeps it until its template is gone.
    Deleting,
    /// It is being deleted and does not have our finalizer: once no other finalizer is left, the
    /// API server removes it.
    Gone,
    /// The watch does not have it, but may lag behind.
    Missing,
    /// The API server does not have it, and never will again: UIDs are not reused.
    Absent,
}

/// What a reconcile finds out about a ComputeDomain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// It has been deleted: its deletion timestamp is set.
    Deleted,
    /// There is a reason not to admit it. Without one, and for a ComputeDomain that is being
    /// deleted, the state of its template is the event.
    Rejected,
    /// It has no template.
    TemplateAbsent,
    /// The watch has no template of it, but somebody may have removed the label.
    TemplateUnseen,
    /// It has a template.
    TemplatePresent,
    /// The template with its labels is not the one that we create: another device class, request
    /// name or config.
    TemplateAltered,
    /// Its template is being deleted and has our finalizer.
    TemplateTerminating,
    /// Its template is being deleted, and only finalizers of others keep it.
    TemplateBlocked,
    /// It has no channel, and one is free for it.
    ChannelWanted,
    /// It has the Lease of a channel that its status does not say.
    ChannelUnreported,
    /// Its status says a channel that has no Lease.
    ChannelLost,
    /// The Lease of a channel that it uses is released.
    ChannelUsedAgain,
    /// It has the Lease of a channel that it does not use, or not any more.
    ChannelUnused,
    /// So it has, and the Lease was released long enough ago.
    ChannelCooled,
    /// Somebody has deleted a Lease of it before that.
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
    /// Make the status say `Ready`.
    ReportAdmission,
    /// Remove our finalizer from the ComputeDomain.
    RemoveFinalizer,
    /// Ask the API server whether the ComputeDomain exists.
    LookUpDomain,
    /// Ask the API server whether the template exists.
    LookUpTemplate,
    /// Make the one request that the event asks for: [`Event::resolution`].
    Resolve,
}

/// What an event leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// What the controller does.
    pub action: Action,
    /// The state once that is done.
    pub next: State,
}

// === impl State ===

impl State {
    /// Every state, in the order of a life.
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

    /// What to do about an event in this state.
    ///
    /// # Guarantees
    ///
    /// * Our finalizer is on the ComputeDomain before the template is created, and stays on it
    ///   until no template is left.
    /// * A rejected ComputeDomain gets no template; one that it already has stays, since pods may
    ///   use it.
    /// * A deletion is never undone, and needs nothing but the template's own state.
    /// * A template without its ComputeDomain is left behind by nobody: a crash, a request that
    ///   arrives late or a finalizer that was removed by hand leads to [`State::Absent`], which ends
    ///   without a template of ours.
    /// * A channel is in the status only after its Lease was created, and before there is a template;
    ///   a Lease is released only when its ComputeDomain is known to be gone, or to have another
    ///   channel.
    /// * Repeated until the template needs nothing more, every life ends admitted, rejected, gone
    ///   or absent, unless finalizers of others block the template.
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
            // Whether a ComputeDomain may be admitted, and whether it has a channel, no longer matters
            // once it is being deleted.
            (
                Deleting | Gone | Missing | Absent,
                Event::Deleted | Event::Rejected | ChannelWanted | ChannelUnreported,
            )
            // What we did not create is its owner's to delete.
            | (
                Missing | Absent,
                TemplateAbsent | TemplateUnseen | TemplateAltered | TemplateBlocked,
            )
            // Its Lease would keep nothing.
            | (Gone | Missing | Absent, ChannelLost) => (Action::Nothing, self),

            // A deletion of ours could not be taken back: the watch is not asked.
            (Missing, TemplatePresent | TemplateTerminating | ChannelUnused | ChannelCooled) => {
                (Action::LookUpDomain, Absent)
            }
            // After `LeaseLost`, whether anybody uses it is found out later.
            (_, ChannelUnused | ChannelCooled | ChannelUsedAgain | LeaseLost) => {
                (Action::Resolve, self)
            }

            // Whatever the template is: first the finalizer, so that a deletion from now on waits.
            (New | Rejected, _) => (Action::AddFinalizer, Finalized),
            // If it exists without the label, the request says so.
            (Finalized | Admitted, TemplateAbsent | TemplateUnseen) => {
                (Action::CreateTemplate, self)
            }
            (Finalized | Admitted, TemplatePresent) => (Action::ReportAdmission, Admitted),
            (Deleting, TemplateAbsent) => (Action::RemoveFinalizer, Gone),
            (Deleting, TemplateUnseen) => (Action::LookUpTemplate, self),
            // A template cannot be changed, only created again once it is gone. That may also be why one
            // of an admitted ComputeDomain is terminating: somebody deleted it.
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
    /// Every event.
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
            Self::TemplateBlocked => "template blocked by others",
            Self::ChannelWanted => "channel wanted",
            Self::ChannelUnreported => "channel not in the status",
            Self::ChannelLost => "channel without Lease",
            Self::ChannelUsedAgain => "released channel is used",
            Self::ChannelUnused => "channel not used",
            Self::ChannelCooled => "channel not used for long",
            Self::LeaseLost => "Lease deleted by somebody",
        }
    }

    /// In tables: what [`Action::Resolve`] does about the event.
    pub const fn resolution(self) -> &'static str {
        match self {
            // Another action follows, or none.
            Self::Deleted | Self::TemplateAbsent | Self::TemplateUnseen => "nothing",
            Self::Rejected => "write the reason into the status",
            Self::TemplatePresent | Self::TemplateAltered => "delete the template",
            Self::TemplateTerminating => "remove the template's finalizer",
            // Until others have removed their finalizers.
            Self::TemplateBlocked => "wait",
            // It fails if there is one by now.
            Self::ChannelWanted => "create a channel's Lease",
            Self::ChannelUnreported => "write the channel into the status",
            // With a mark that says so.
            Self::ChannelLost => "create the Lease again",
            Self::ChannelUsedAgain => "take the Lease back",
            // With the time since when the channel is not used.
            Self::ChannelUnused => "release the Lease",
            Self::ChannelCooled => "delete the Lease",
            Self::LeaseLost => "create the Lease as it was",
        }
    }
}

impl Action {
    /// In tables: what the action does about this event.
    pub const fn name(self, event: Event) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::AddFinalizer => "add the finalizer",
            Self::CreateTemplate => "create the template",
            Self::ReportAdmission => "write status Ready",
            Self::RemoveFinalizer => "remove the finalizer",
            Self::LookUpDomain => "look the ComputeDomain up",
            Self::LookUpTemplate => "look the template up",
            Self::Resolve => event.resolution(),
        }
    }
}

#[cfg(test)]
mod tests;
