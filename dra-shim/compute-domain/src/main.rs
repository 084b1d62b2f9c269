//! `compute-domain-kubelet-plugin`: gives pods their IMEX channels through
//! kubelet's DRA protocol.
//!
//! ```text
//! kubelet ◄──► dra-kubelet ──► driver ──► compute-domain-node ──► checkpoint, CDI files
//!                  ▲           ▲    ▲              ▲
//!     slice, health│    domain_│    │ monitor      │ checkpoint: opens, rebuilds
//!                  │    lookup │    │ (NVML,       │ reconciler: unprepares claims that are gone
//!              advertise            │  channel     │      ▲
//!                  ▲                │  major)      │      └── check_schedule: which one when
//!                  └────────────────┘         claim_lookup, pod_lookup
//! ```
//!
//! `device_form` decides whether the device is published for one claim or for many, and has it drained
//! on the way back.
//!
//! Beside all that, `spec_keeper` keeps the CDI files of prepared claims in place, `writer_watch` asks
//! whether the checkpoint could be changed, and `removed_mounts` whether the host's directories are there.
//!
//! `nri_guard`, where it is on, is called by the container runtime for every container, and asks the
//! claims whether they explain a channel that it asks for.
//!
//! What people see of a claim: `call_observer` makes metrics, events and the list of claims
//! `in_flight` (SIGUSR2) of what dra-kubelet does, `claim_status` reports prepared devices.
//!
//! `docs/reference/plugin-api-requests.md` lists the requests to the API server for each event.
//!
//! This program decides nothing about a claim: `driver` gathers the facts and
//! hands them to `compute_domain_node::NodeClaims`; `kubelet` starts dra-kubelet
//! with it. No failure of the node or of
//! the cluster ends the process; `monitor` and `checkpoint` wait and recover.

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
