//! A plugin's identity, and its policy for late answers.

use std::fmt;

/// The library's answer to a call that the plugin has not answered by its deadline. A late
/// `configure` or `synchronize` always gets an error, which ends the registration, because the
/// plugin's state is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Late {
    /// An empty answer: no changes. The runtime would do the same after dropping a late plugin.
    #[default]
    Allow,
    /// A refusal, for calls that a refusal can fail. For a plugin that enforces a policy.
    Refuse,
}

/// The plugin's identity for the runtime.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// Two digits.
    pub(crate) index: String,
    pub(crate) name: String,
    pub(crate) late: Late,
}

// === impl Identity ===

/// The form in the runtime's log: `50-logger`.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.index, self.name)
    }
}
