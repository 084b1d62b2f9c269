//! Watches ComputeDomain objects and keeps the claim template of each.
//!
//! ```text
//! args ─> run ─┬─ lease      (with leader election) one replica works, the others wait
//!              ├─ reconcile  one ComputeDomain at a time per object, a few in parallel
//!              │     └─ cluster ── the requests; compute-domain-core decides which
//!              └─ metrics    counted from the watch's cache when scraped
//! ```

mod args;
mod backoff;
mod cluster;
mod lease;
mod metrics;
mod reconcile;
mod run;
#[cfg(test)]
mod scripted_api;

use std::process::ExitCode;

fn main() -> ExitCode {
    imex_runtime::daemon::main(run::run)
}
