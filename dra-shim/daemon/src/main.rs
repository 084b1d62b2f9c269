//! `compute-domain-daemon`: runs one `nvidia-imex` for its node, for good. Its peers are the nodes of the
//! node's NVLink clique, which the controller lists in a `ComputeDomainClique`.
//!
//! ```text
//! NVML ──> fabric ──┐                               ┌──> hosts file, imexd.cfg, nodes.cfg
//!                   ├──> supervisor ──> core        ├──> nvidia-imex: start, SIGUSR1, SIGTERM
//! ComputeDomain-    │      (does)      (decides) ───┼──> state.json, /readyz ──> kubelet plugin, kubelet
//! Clique ──> watch ─┘                               └──> events, metrics, log
//!                          ^
//!     nvidia-imex: its end, its output; nvidia-imex-ctl -q: its state
//! ```
//!
//! Everything is decided in `core`, which does no I/O and knows no clock. `supervisor` does it, one thing
//! after the other. No failure of the node or of the cluster ends the process.

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
