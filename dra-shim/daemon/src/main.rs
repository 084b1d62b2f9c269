//! `compute-domain-daemon`: runs `nvidia-imex` on its node. Its peers are the nodes of the same NVLink clique,
//! which the controller lists in a `ComputeDomainClique`.
//!
//! ```text
//! NVML ──> fabric ──┐                               ┌──> hosts file, imexd.cfg, nodes.cfg
//!                   ├──> supervisor ──> core        ├──> nvidia-imex: start, SIGUSR1, SIGTERM
//! ComputeDomain-    │      (does)      (decides) ───┼──> state.json, /readyz ──> kubelet plugin, kubelet
//! Clique ──> watch ─┘                               └──> events, metrics, log
//!                          ^
//!     nvidia-imex: its exit, its output; nvidia-imex-ctl -q: its state
//! ```
//!
//! `core` makes all decisions, without I/O or a clock. `supervisor` performs them one after the other. No failure
//! of the node or the cluster ends the process.

#![forbid(unsafe_code)]

mod args;
mod certificates;
mod check;
mod clique_watch;
mod core;
mod files;
mod hosts;
mod imex;
mod metrics;
mod orphans;
mod query;
mod reports;
mod run;
mod supervisor;

use std::process::ExitCode;

fn main() -> ExitCode {
    daemon_runtime::daemon::main(run::run)
}
