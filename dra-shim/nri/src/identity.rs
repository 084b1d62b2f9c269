//! What a plugin is to the runtime, apart from its methods.

use std::fmt;

/// What a call is answered with that the plugin has not answered by its deadline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Late {
    /// As if the plugin had nothing to change, which is what the runtime does too, after
    /// it has dropped a plugin that is late.
    #[default]
    Allow,
    /// With a refusal, where a refusal fails something. For a plugin that guards.
    Refuse,
}

/// Who the plugin is, to the runtime.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// Two digits.
    pub(crate) index: String,
    pub(crate) name: String,
    pub(crate) late: Late,
}

// === impl Identity ===

/// As the runtime's log shows it: `50-logger`.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.index, self.name)
    }
}
