//! `compute-domain-kubelet-plugin`: gives pods their IMEX channels through
//! kubelet's DRA protocol.
//!
//! ```text
//! kubelet ◄──► plugin-parts ──► driver ──► compute-domain-node ──► checkpoint, CDI files
//!                  ▲            ▲    ▲              ▲
//!     slice, health│     domain_│    │ monitor      │ plugin-parts: opens, rebuilds,
//!                  │     lookup │    │ (NVML,       │ unprepares deleted claims
//!              advertise             │  channel     │
//!                  ▲                 │  major)      │
//!                  └─────────────────┘       channel_devices
//! ```
//!
//! `plugin-parts` has what every driver's plugin has around its claims; `channel_devices` is what it needs of
//! this driver, and `run` starts both.
//!
//! `device_form` decides whether the device is published as exclusive or as shared, and drains it when
//! sharing is switched off.
//!
//! If `nri_guard` is on, the container runtime calls it for every container, and it checks whether a claim
//! covers the channels that the container requests.
//!
//! `docs/reference/plugin-api-requests.md` lists the requests to the API server for each event.
//!
//! `compute_domain_node::NodeClaims` makes all decisions about a claim: `driver` looks up
//! the facts and passes them to it. No failure of the node or the cluster ends the process; `monitor` waits
//! and recovers.

#![forbid(unsafe_code)]

mod advertise;
mod args;
mod channel_devices;
mod claim_errors;
mod device;
mod device_form;
mod domain_lookup;
mod driver;
mod host_imex;
mod imex_daemon;
mod monitor;
mod node_device;
mod node_metrics;
mod nri_guard;
mod run;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

fn main() -> ExitCode {
    daemon_runtime::daemon::main(run::run)
}
