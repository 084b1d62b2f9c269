//! The controller of `ComputeDomains`: creates a `ResourceClaimTemplate` for each, writes its status,
//! and deletes the template with it.
//!
//! ```text
//! args ─> run ─┬─ lease      leader election: of several replicas, only the leader reconciles
//!              ├─ reconcile  compute-domain-core decides on the next request, api_client makes it;
//!              │             one reconcile per object at a time, several objects in parallel
//!              └─ metrics    computed from the watch's cache whenever they are scraped
//! ```
//!
//! Logs, health, metrics and the Kubernetes client come from `imex-runtime`.

mod api_client;
mod args;
mod backoff;
#[cfg(test)]
mod fake_api;
mod lease;
mod metrics;
mod reconcile;
mod run;

use std::process::ExitCode;

fn main() -> ExitCode {
    imex_runtime::daemon::main(run::run)
}
