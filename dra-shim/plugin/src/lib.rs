//! What a DRA driver's node plugin has around its claims: the same for every driver, whose devices are
//! [`PluginDevices`].
//!
//! ```text
//! kubelet ◄──► dra-kubelet ──► the driver ──► node-claims ──► checkpoint, CDI files
//!                  │               │  ▲            ▲
//!      events ◄────┤  ReportedHolders │       checkpoint: opens, rebuilds, then fills SharedClaims
//!     metrics ◄────┤               ▼  │       spec_keeper: restores missing specs
//!   in_flight ◄────┘        Reconciler│       writer_watch: is the checkpoint writable?
//!                             │  │    │
//!                   claim_lookup │    └── SharedClaims: the node's claims, once they are open
//!                       pod_lookup
//! ```
//!
//! [`Parts`] has the common inputs. [`Parts::start`] starts the tasks around the claims, and
//! [`Parts::serve_kubelet`] serves kubelet with the driver until a signal. The driver is an implementation of
//! `dra_kubelet::Driver`: it looks up the facts of a call, notes each [`Step`], passes the facts to
//! `node-claims`, and reports the result with [`prepare_failed`], [`ClaimStatusWriter`] and
//! [`Metrics::count_prepared`]. If another claim holds the device, it reports the holder to
//! [`ReportedHolders`], and the [`Reconciler`] checks at once whether that claim still exists.
//!
//! * `checkpoint` opens the checkpoint and rebuilds it after damage; it retries while the disk or the API
//!   server fails.
//! * `spec_keeper` writes missing CDI specs again, and all of them when [`PluginDevices::facts`] change.
//! * `writer_watch` checks that the checkpoint is writable, and `removed_mounts` that the host's directories
//!   still exist.
//! * `reconciler` unprepares claims that were deleted without an Unprepare; `check_schedule` decides which
//!   one it looks up when.
//! * `kubelet` starts dra-kubelet and follows registration and publication; `second_plugin` reports another
//!   plugin of the driver.
//! * `call_observer` turns dra-kubelet's events into metrics, Kubernetes events and the list of claims
//!   `in_flight` (SIGUSR2).
//! * `claim_status` writes prepared devices into claims' status.
//!
//! No failure of the node or the cluster ends a task: it waits and recovers.

#![forbid(unsafe_code)]

mod call_observer;
mod check_schedule;
mod checkpoint;
mod checkpoint_gauges;
mod claim_errors;
mod claim_lookup;
mod claim_presence;
mod claim_status;
mod driver_calls;
mod get_object;
mod held_since;
mod in_flight;
mod kubelet;
mod list_pages;
mod metrics;
mod parts;
mod path_segment;
mod plugin_devices;
mod pod_lookup;
mod reconciler;
mod references;
mod removed_mounts;
mod reported_holders;
mod second_plugin;
mod serve_http;
mod shared_claims;
mod spec_keeper;
mod unsupported_fields;
mod writer_watch;

pub use call_observer::CallObserver;
pub use check_schedule::CheckSchedule;
pub use checkpoint::DATA_MODE;
pub use claim_errors::{prepare_failed, unprepare_failed};
pub use claim_lookup::ClaimLookup;
pub use claim_status::{ClaimStatusWriter, DeviceReport, Reported, reported};
pub use driver_calls::{blocking, to_device};
pub use get_object::get_object;
pub use held_since::with_prepared_at;
pub use in_flight::{InFlight, Step, dump_on_signal};
pub use list_pages::for_each_object;
pub use metrics::Metrics;
pub use parts::{KubeletParts, Parts, READS_LIMIT, REQUESTS_LIMIT, WRITES_LIMIT};
pub use path_segment::is_path_segment;
pub use plugin_devices::{Facts, PluginDevices};
pub use pod_lookup::PodLookup;
pub use reconciler::Reconciler;
pub use references::claim_reference;
pub use reported_holders::ReportedHolders;
pub use serve_http::{register_metrics, serve_http};
pub use shared_claims::SharedClaims;
pub use spec_keeper::SpecKeeper;
pub use unsupported_fields::UnsupportedFields;
