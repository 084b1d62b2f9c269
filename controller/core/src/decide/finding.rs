//! What there is to be done, as an event of the state machine.

use serde_json::Value;

use crate::lifecycle::Event;
use crate::rejection::Rejection;
use crate::template_ref::TemplateRef;

/// The state of a template with the data for its requests: an [`Event`].
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
        }
    }
}
