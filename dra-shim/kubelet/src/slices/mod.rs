//! Publishing the node's devices: `ResourceSlice`s in a pool named after the node,
//! kept as the driver wants them whoever else touches them.
//!
//! ```text
//! desired (watch) ──┐
//! own watch of the  ├──> what is due ──> turn ──> GET node ──> plan ──> requests
//! node's slices  ───┤        ▲         (files)                (pure:   (stages)
//! kubelet's Notify ─┘        │                                layout,     │
//!                            │                                accepted)   │
//!                            └──────────── back-off on errors ────────────┘
//! ```
//!
//! # Several instances
//!
//! During a rolling update two instances of a driver share the data directory, and
//! may want different devices. `turn` decides which one publishes: the newest that
//! kubelet has registered, and the newest while there is none. The other one stands
//! by: it writes nothing, looks once a second, and publishes again within about a
//! second when the newer one ends, be it by `kill -9`. So a failed update leaves the
//! old devices published, and a new version's devices appear only once it can be
//! called for them.
//!
//! Limits: instances on different data directories, and another implementation of
//! the protocol under the same driver name, know nothing of the tickets. With the
//! same devices they converge all the same, since a slice that is right is left
//! alone whoever wrote it; with different ones each answers the other's change. A
//! newer instance that hangs keeps its turn.

mod accepted;
mod due;
mod error;
mod layout;
mod plan;
mod publisher;
mod requests;
mod seen;
mod turn;

#[cfg(test)]
mod model;
#[cfg(test)]
mod rolling;

use k8s_openapi::api::resource::v1;

pub use accepted::Dropped;
pub(crate) use error::SliceError;
pub(crate) use publisher::Publisher;

/// What the node's pool should hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Desired {
    /// Not known yet: whatever is published stays as it is.
    #[default]
    Undecided,
    /// Nothing: the driver's slices of this node are deleted.
    Withdrawn,
    /// These devices, any number, in order of preference (an empty pool is valid).
    ///
    /// They are cut into slices of 64. The scheduler tries the devices of a slice in
    /// this order, and the slices one after the other; a device stays in its slice
    /// while others come and go, so across slices the order holds for a pool that
    /// is published afresh.
    ///
    /// Names are DNS labels and unique. Counter sets are not published, so devices
    /// that consume counters are refused. A taint's `timeAdded` may be left to the
    /// API server: it is kept while key, value and effect stay the same.
    Devices(Vec<v1::Device>),
}

/// How publishing stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Publication {
    /// Nothing is decided, or the API server was not reached yet.
    #[default]
    Pending,
    /// The API server holds what is desired, as far as it stores it.
    Published {
        /// The names of the `ResourceSlice`s, in order.
        slices: Vec<String>,
        /// What the API server left out: normally nothing.
        ///
        /// A driver that relies on such a field finds another way. Where `taints`
        /// are dropped, for example, it keeps new claims away from a device by
        /// leaving it out of [`Desired::Devices`].
        ///
        /// Known once this process has written the device. It is sent again when it
        /// changes, and by the next process.
        dropped: Vec<Dropped>,
    },
    /// The API server holds no slice of this driver and node.
    Withdrawn,
    /// Another instance of the driver on the same data directory publishes: a newer
    /// one, or one that kubelet has registered already while it has not registered
    /// this one. This instance takes over when that one ends.
    Standby,
    /// It does not work at the moment; the publisher tries on.
    Failing {
        /// A stable word for metrics: `invalid-devices`, `slice-name-too-long`,
        /// `kubernetes-too-old`, `no-node`, `slice-request`,
        /// `slice-request-timeout`, `watch-slices`.
        code: &'static str,
        /// Why, and the fix where it is known, in one sentence.
        reason: String,
    },
}
