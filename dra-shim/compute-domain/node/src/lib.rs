//! Crash-safe Prepare and Unprepare of IMEX channel claims on one node.
//! Synchronous: the caller gathers the facts and calls on a thread that may
//! block.
//!
//! Only for the driver `compute-domain.nvidia.com` and CDI devices of the kind
//! `k8s.compute-domain.nvidia.com/claim`. Both names are fixed; the records have the Go driver's
//! format. For other devices, use `dra-checkpoint` and `imex-cdi` directly. Not published to a
//! registry (`publish = false`): depend on it by git or path.
//!
//! ```text
//! ClaimStatus, label ──► ChannelRequest            what the claim requests (pure)
//!                        │
//! facts: DomainState, Hardware (fabric, major)     looked up by the caller
//!                        ▼
//! NodeClaims::start         removes the state of an earlier boot, aligns specs with records
//! NodeClaims::prepare       record Started ──► CDI spec ──► record Completed ──► devices for kubelet
//! NodeClaims::unprepare     CDI spec removed ──► record removed, or Aborted
//! NodeClaims::repair_specs  rewrites specs that were removed externally
//! NodeClaims::rebuild       after damage: restores the lost records
//! NodeClaims::channel_owner which claim owns the channel that a container requests
//! AbsenceTracker            which recorded claims were deleted long enough ago to be unprepared
//! ```
//!
//! How a claim is prepared and unprepared, once the caller has read it from the API server:
//!
//! ```
//! use std::sync::Arc;
//!
//! use compute_domain_api::names::DOMAIN_LABEL;
//! use compute_domain_api::{Isolation, Sharing};
//! use compute_domain_node::{
//!     ChannelRequest, DomainState, HolderPolicy, Hardware, Moment, NodeClaims, PrepareInput,
//! };
//! use dra_checkpoint::{BootId, ClaimRef, ClaimStatus};
//! use durable_file::OsDir;
//! use imex_cdi::{ChannelId, read_channel_major};
//! # use nvml_clique::{ClusterUuid, Fabric, Gpu, GpuFabricState, GpuRef, NodeFabricState};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let scratch = tempfile::tempdir()?;
//! # let [plugin_dir, cdi_root, proc_devices] =
//! #     ["plugin", "cdi", "devices"].map(|name| scratch.path().join(name));
//! # std::fs::write(&proc_devices, "Character devices:\n235 nvidia-caps-imex-channels\n")?;
//! # let status = r#"{"allocation": {"devices": {
//! #     "results": [{"request": "channel", "driver": "compute-domain.nvidia.com",
//! #         "pool": "node-a", "device": "channel-0"}],
//! #     "config": [{"source": "FromClaim", "opaque": {"driver": "compute-domain.nvidia.com",
//! #         "parameters": {"apiVersion": "resource.nvidia.com/v1beta1",
//! #             "kind": "ComputeDomainChannelConfig", "allocationMode": "Single",
//! #             "domainID": "c0ffee00-1234-4567-89ab-0123456789ab"}}}]}}}"#;
//! # let labels = std::collections::BTreeMap::from([
//! #     (DOMAIN_LABEL.to_owned(), "c0ffee00-1234-4567-89ab-0123456789ab".to_owned())]);
//! # let id = GpuRef { index: 0, uuid: None };
//! # let in_clique = GpuFabricState::Completed { cluster: ClusterUuid([7; 16]), clique_id: 0 };
//! # let fabric = Fabric::from_gpus(&[Gpu { id, name: None, fabric: in_clique, health: None }]);
//! # let state = NodeFabricState::default().next(fabric.event());
//! // Once for each process. `HolderPolicy::new` takes the program's settings.
//! let holder_policy = HolderPolicy { isolation: Isolation::Channel, sharing: Sharing::Many { slots: 64 } };
//! let (node, _report) = NodeClaims::start(
//!     Arc::new(OsDir::create(&plugin_dir, 0o750)?),
//!     Arc::new(OsDir::create(&cdi_root, 0o755)?), // /var/run/cdi
//!     BootId::current()?,
//!     read_channel_major(&proc_devices).ok(), // /proc/devices
//!     holder_policy,
//! )?;
//!
//! // What the claim requests: from `status` and `metadata.labels` of the ResourceClaim.
//! let claim = ClaimRef { uid: "0b5a".into(), name: "worker".into(), namespace: "ns".into() };
//! let status = ClaimStatus::from_json(status)?;
//! let label = labels.get(DOMAIN_LABEL).map(String::as_str);
//! let request = ChannelRequest::from_status(&status)?.with_label(label);
//!
//! // The facts: the state of `request.domain` in the API server, and the hardware according to
//! // `nvml_clique::FabricWatch`.
//! let domain = DomainState::Assigned(ChannelId::new(7)?);
//! let major = read_channel_major(&proc_devices);
//! let hardware = Hardware { state, fabric, major, channel_count: Some(2048) };
//!
//! let input = PrepareInput {
//!     claim: &claim,
//!     status: &status,
//!     request: &request,
//!     domain,
//!     node: "node-a",
//!     hardware: &hardware,
//!     now: Moment::now(),
//! };
//! let prepared = node.prepare(&input)?;
//! let [device] = prepared.devices.try_into().map_err(|_| "a channel claim has one device")?;
//! assert_eq!(device.device_name, "channel-0"); // the allocated device, for kubelet
//! let opened = ["k8s.compute-domain.nvidia.com/claim=0b5a-channel-7".to_owned()];
//! assert_eq!(device.cdi_device_ids.as_deref(), Some(&opened[..]));
//! node.unprepare(&claim.uid, Moment::now())?;
//! # assert_eq!(std::fs::read_dir(&cdi_root)?.count(), 0);
//! # Ok(())
//! # }
//! ```
//!
//! These calls use types of other crates, which a caller needs too: `compute-domain-api`
//! (names and settings), `dra-checkpoint` (claims and their status), `durable-file` (the two
//! directories), `imex-cdi` (channels, the major) and `nvml-clique` (the fabric). `dra-kubelet`
//! talks to kubelet.
//!
//! Two tables decide: [`lifecycle`] has the durable steps of every call from every state of a
//! claim, [`policy`] what the hardware's state allows. `ARCHITECTURE.md` shows both under "States".
//!
//! Only a Completed record holds a device. [`HolderPolicy`] decides which claim may hold which device, in
//! the commit that writes the record ([`dra_checkpoint::Store`]). The commit runs under a lock that
//! the Go driver's plugin on the same node takes, too. A CDI spec is removed only inside such a
//! commit.

#![forbid(unsafe_code)]

mod absence_tracker;
mod begin_prepare;
mod channel_owner;
#[cfg(test)]
mod conformance_tests;
#[cfg(test)]
mod crash_tests;
mod device_group;
mod drained;
mod end_prepare;
mod error;
mod hardware;
mod held_channels;
mod holder_policy;
#[cfg(test)]
mod holder_policy_model_tests;
mod imex_daemon;
pub mod lifecycle;
mod moment;
mod node_claims;
pub mod policy;
mod prepare;
mod rebuild;
mod repair;
mod request;
#[cfg(test)]
mod sequence_tests;
mod shared_marker;
mod spec;
mod start;
#[cfg(test)]
mod test_objects;
mod text;
#[cfg(test)]
mod two_instances_tests;
mod unprepare;

pub use absence_tracker::{ABSENT_FOR, AbsenceTracker, Presence};
pub use channel_owner::{
    ChannelOwner, Unexplained, channels_to_explain, describe_requests, has_channel,
    is_reserved_for, owner_among, sentence, unexplained,
};
pub use device_group::{ConfigState, DeviceDetails, DeviceGroup, DeviceInfo, PreparedDevice};
pub use dra_common::Class;
pub use error::{ChannelSource, PrepareError, UnprepareError};
pub use hardware::Hardware;
pub use holder_policy::{DomainState, HolderPolicy, Holding};
pub use imex_daemon::{ImexDaemon, ImexDaemonError};
pub use moment::Moment;
pub use node_claims::{NodeClaims, WriterError};
pub use prepare::{PrepareInput, Prepared};
pub use rebuild::{AllocatedClaim, RebuildReport};
pub use request::ChannelRequest;
pub use shared_marker::{SHARED_MARKER, SharedMarker};
pub use spec::RepairReport;
pub use start::{StartError, StartReport};
pub use text::with_hint;
