//! `compute-domain-kubelet-plugin`: gives pods their IMEX channels through
//! kubelet's DRA protocol.
//!
//! ```text
//! kubelet ◄──► dra-kubelet ──► driver ──► compute-domain-node ──► checkpoint, CDI files
//!                  ▲           ▲    ▲              ▲
//!     slice, health│    domain_│    │ monitor      │ checkpoint: opens, rebuilds
//!                  │    lookup │    │ (NVML,       │ reconciler: unprepares deleted claims
//!              advertise            │  channel     │      ▲
//!                  ▲                │  major)      │      └── check_schedule: which one when
//!                  └────────────────┘         claim_lookup, pod_lookup
//! ```
//!
//! `device_form` decides whether the device is published as exclusive or as shared, and drains it when
//! sharing is switched off.
//!
//! `spec_keeper` restores missing CDI files of prepared claims, `writer_watch` checks that the checkpoint
//! is writable, and `removed_mounts` that the host's directories still exist.
//!
//! If `nri_guard` is on, the container runtime calls it for every container, and it checks whether a claim
//! covers the channels that the container requests.
//!
//! `call_observer` turns dra-kubelet's events into metrics, Kubernetes events and the list of claims
//! `in_flight` (SIGUSR2). `claim_status` reports prepared devices.
//!
//! `docs/reference/plugin-api-requests.md` lists the requests to the API server for each event.
//!
//! `compute_domain_node::NodeClaims` makes all decisions about a claim: `driver` looks up
//! the facts and passes them to it, and `kubelet` starts dra-kubelet with `driver`. No failure
//! of the node or the cluster ends the process; `monitor` and `checkpoint` wait and recover.

#![forbid(unsafe_code)]

mod advertise;
mod args;
mod call_observer;
mod check_schedule;
mod checkpoint;
mod checkpoint_gauges;
mod claim_errors;
mod claim_lookup;
mod claim_presence;
mod claim_reference;
mod claim_status;
mod device;
mod device_form;
mod domain_lookup;
mod driver;
mod get_object;
mod held_since;
mod host_imex;
mod imex_daemon;
mod in_flight;
mod kubelet;
mod list_pages;
mod metrics;
mod monitor;
mod nri_guard;
mod path_segment;
mod pod_lookup;
mod reconciler;
mod removed_mounts;
mod reported_holders;
mod run;
mod second_plugin;
mod shared_claims;
mod spec_keeper;
#[cfg(test)]
mod test_objects;
#[cfg(test)]
mod tests;
mod unsupported_fields;
mod writer_watch;

use std::process::ExitCode;

fn main() -> ExitCode {
    daemon_runtime::daemon::main(run::run)
}
