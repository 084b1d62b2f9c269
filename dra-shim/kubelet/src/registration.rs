//! Where a plugin's registration with kubelet stands.

/// What kubelet last said about this plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Registration {
    /// The sockets are open, or being opened again; kubelet has not answered yet.
    #[default]
    Pending,
    /// kubelet sends its calls here. It never announces the end of that; after a
    /// restart it registers the plugin again, and each time counts as a change of the
    /// watch.
    Registered,
    /// kubelet refused the plugin, and will ask again.
    Refused {
        /// kubelet's message.
        reason: String,
    },
}

impl Registration {
    /// Whether kubelet has accepted the sockets that are open now.
    pub const fn is_registered(&self) -> bool {
        matches!(self, Self::Registered)
    }
}
