//! The devices that a driver wants to publish, and the state of publishing.

use std::fmt;

use k8s_openapi::api::resource::v1::Device;

/// The desired contents of the node's pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum DesiredPool {
    /// Not known yet: published slices remain unchanged.
    #[default]
    Undecided,
    /// No pool: the driver's slices of this node are deleted.
    Withdrawn,
    /// These devices, any number, in order of preference. An empty pool is valid.
    ///
    /// They are published in slices of 64. The scheduler tries the slices one after the
    /// other, and the devices of a slice in this order. A device remains in its slice while
    /// others are added and removed. So the order across slices holds only when the pool is
    /// first published.
    ///
    /// Names must be DNS labels and unique. Devices that consume counters are rejected:
    /// counter sets are not supported. A taint's `timeAdded` may be omitted: the API server
    /// sets it, and it is kept while key, value and effect are unchanged.
    Devices(Vec<Device>),
}

/// The state of publishing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Publication {
    /// The desired pool is [`DesiredPool::Undecided`], or the API server was not reachable yet.
    #[default]
    Pending,
    /// The API server holds the desired devices, as far as it stores them.
    Published {
        /// The names of the `ResourceSlice`s, in order.
        slices: Vec<String>,
        /// The pool's generation, the same for all slices.
        generation: i64,
        /// The fields that the API server dropped: normally none.
        ///
        /// A driver that relies on such a field needs an alternative. For example, if
        /// `taints` are dropped, it can keep new claims away from a device by removing the
        /// device from [`DesiredPool::Devices`].
        ///
        /// Known once this process has written the device, which it does if the stored
        /// device differs from the desired one. A dropped field is such a difference, so
        /// after a restart it is written once more.
        dropped: Vec<DroppedField>,
    },
    /// The API server holds no slice of this driver and node.
    Withdrawn,
    /// Another instance of the driver on the same data directory publishes, because it is
    /// newer, or because kubelet has registered it and not this instance. This instance
    /// writes nothing, and takes over when the other one ends.
    Standby,
    /// Publishing fails; the publisher retries.
    Failing {
        /// A stable code for metrics: `invalid-devices`, `slice-name-too-long`,
        /// `kubernetes-too-old`, `no-node`, `slice-request`, `slice-request-timeout`,
        /// `watch-slices`.
        code: &'static str,
        /// The reason, and the fix if it is known.
        reason: String,
    },
}

/// A field of published devices that the API server did not store, because its feature gate
/// is off or the API server does not know the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedField {
    /// The field below `spec.devices[]`, such as `taints` or `bindsToNode`. `taints.effect`: the API server refuses
    /// taints with other effects than `NoSchedule` and `NoExecute`, and so the devices are published without them.
    pub field: String,
    /// The names of the affected devices, in order.
    pub devices: Vec<String>,
    /// The feature gate of API server and scheduler that probably guards the field.
    pub gate: Option<&'static str>,
}

impl fmt::Display for DroppedField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.devices.len();
        write!(
            f,
            "the API server dropped the field {} of {count} devices",
            self.field
        )?;
        match self.gate {
            Some(gate) => write!(f, ": the feature gate {gate} is probably off"),
            None => f.write_str(": the API server is probably too old for this field"),
        }
    }
}
