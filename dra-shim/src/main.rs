//! `compute-domain-kubelet-plugin`: gives pods their IMEX channels through
//! kubelet's DRA protocol.
//!
//! ```text
//! kubelet ──► dra-kubelet ──► driver ──► compute-domain-node ──► checkpoint, CDI
//!                 ▲             ▲  ▲                   ▲
//!          ResourceSlice   domains │ hardware      keeper
//!                 ▲        (API)   │ (NVML, major) (opens, rebuilds, reconciles)
//!                 └────────────────┘
//! ```
//!
//! No logic of a claim's life is here: `driver` looks facts up and hands them to
//! `compute_domain_node::Node`. Nothing that is wrong with the world ends the
//! process; see `hardware` and `keeper` for how it waits and recovers.

#![forbid(unsafe_code)]

mod args;
mod domains;
mod driver;
mod hardware;
mod keeper;
mod live_claims;
mod metrics;
mod node_slot;
mod run;
mod words;

use std::process::ExitCode;

fn main() -> ExitCode {
    imex_runtime::daemon::main(run::run)
}
