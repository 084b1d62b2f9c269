//! What a driver wants published, and where publishing stands.

use std::fmt;

use k8s_openapi::api::resource::v1::Device;

/// What the node's pool should contain.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum DesiredPool {
    /// Not known yet: what is published stays as it is.
    #[default]
    Undecided,
    /// Nothing: the driver's slices of this node are deleted.
    Withdrawn,
    /// These devices, any number, in order of preference. An empty pool is valid.
    ///
    /// They are published in slices of 64. The scheduler tries the devices of a slice in
    /// this order, and the slices one after the other. A device stays in its slice while
    /// others come and go, so across slices the order holds only when the pool is
    /// published for the first time.
    ///
    /// Names must be DNS labels and unique. Counter sets are not published, so devices
    /// that consume counters are rejected. A taint's `timeAdded` may be left to the API
    /// server: it is kept while key, value and effect stay the same.
    Devices(Vec<Device>),
}

/// Where publishing stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Publication {
    /// [`DesiredPool::Undecided`], or the API server has not been reached yet.
    #[default]
    Pending,
    /// The API server holds the desired devices, as far as it stores them.
    Published {
        /// The names of the `ResourceSlice`s, in order.
        slices: Vec<String>,
        /// The pool's generation, which all of them have.
        generation: i64,
        /// The fields that the API server dropped: normally none.
        ///
        /// A driver that relies on such a field needs another way. Where `taints` are
        /// dropped, for example, it keeps new claims away from a device by leaving the
        /// device out of [`DesiredPool::Devices`].
        ///
        /// Known once this process has written the device. It does so if what it finds
        /// stored differs from what is desired: after a restart, too, a field that is
        /// dropped makes a difference, and is tried once.
        dropped: Vec<DroppedField>,
    },
    /// The API server holds no slice of this driver and node.
    Withdrawn,
    /// Another instance of the driver on the same data directory publishes: a newer one,
    /// or one that kubelet has registered while it has not registered this one. This
    /// instance writes nothing, and takes over when that one ends.
    Standby,
    /// Publishing fails at the moment; the publisher keeps trying.
    Failing {
        /// A stable code for metrics: `invalid-devices`, `slice-name-too-long`,
        /// `kubernetes-too-old`, `no-node`, `slice-request`, `slice-request-timeout`,
        /// `watch-slices`.
        code: &'static str,
        /// The reason, and the fix if it is known, in one sentence.
        reason: String,
    },
}

/// A field of published devices that the API server did not store, because the feature
/// gate that guards it is off or the API server does not know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedField {
    /// The field below `spec.devices[]`, such as `taints` or `bindsToNode`.
    pub field: String,
    /// The names of the devices that lost it, in order.
    pub devices: Vec<String>,
    /// The feature gate of API server and scheduler that probably guards it.
    pub gate: Option<&'static str>,
}

impl fmt::Display for DroppedField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.devices.len();
        write!(
            f,
            "the API server dropped {} of {count} devices",
            self.field
        )?;
        match self.gate {
            Some(gate) => write!(f, ": the feature gate {gate} is probably off"),
            None => f.write_str(": it is probably too old for that field"),
        }
    }
}
