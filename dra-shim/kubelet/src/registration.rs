//! The state of a plugin's registration with kubelet.

/// The state of this plugin's registration with kubelet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Registration {
    /// The sockets are open or being reopened; kubelet has not answered yet.
    #[default]
    Pending,
    /// kubelet sends its calls to this plugin. kubelet never announces the end of a
    /// registration. After a restart it registers the plugin again; the watch reports
    /// each registration as a change.
    Registered,
    /// kubelet refused the plugin, and will retry.
    Refused {
        /// kubelet's message.
        reason: String,
    },
}

impl Registration {
    /// Whether kubelet has accepted the current sockets.
    pub const fn is_registered(&self) -> bool {
        matches!(self, Self::Registered)
    }
}
