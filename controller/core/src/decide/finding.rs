//! What there is to be done, as an event of the state machine.

use std::sync::Arc;

use serde_json::Value;

use crate::channel_lease::ChannelLease;
use crate::lifecycle::Event;
use crate::rejection::Rejection;
use crate::template_ref::TemplateRef;

/// The state of a template or a channel, with the data for its requests: an [`Event`].
#[derive(Debug)]
pub(super) enum Finding {
    Rejected(Rejection),
    TemplateAbsent,
    TemplateUnseen,
    TemplatePresent(TemplateRef),
    TemplateAltered(TemplateRef),
    /// With the patch that removes our finalizer.
    TemplateTerminating(TemplateRef, Value),
    /// With what keeps it.
    TemplateBlocked(TemplateRef, Rejection),
    ChannelWanted(u32),
    ChannelUnreported(u32),
    ChannelLost(u32),
    ChannelUsedAgain(Arc<ChannelLease>),
}

// === impl Finding ===

impl Finding {
    pub(super) fn event(&self) -> Event {
        match self {
            Self::Rejected(_) => Event::Rejected,
            Self::TemplateAbsent => Event::TemplateAbsent,
            Self::TemplateUnseen => Event::TemplateUnseen,
            Self::TemplatePresent(_) => Event::TemplatePresent,
            Self::TemplateAltered(_) => Event::TemplateAltered,
            Self::TemplateTerminating(..) => Event::TemplateTerminating,
            Self::TemplateBlocked(..) => Event::TemplateBlocked,
            Self::ChannelWanted(_) => Event::ChannelWanted,
            Self::ChannelUnreported(_) => Event::ChannelUnreported,
            Self::ChannelLost(_) => Event::ChannelLost,
            Self::ChannelUsedAgain(_) => Event::ChannelUsedAgain,
        }
    }
}
