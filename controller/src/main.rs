//! The controller of `ComputeDomains`: creates a `ResourceClaimTemplate` for each, writes its status, and deletes the
//! template when the ComputeDomain is deleted.
//!
//! ```text
//! args ─> run ─┬─ lease      leader election: of several replicas, only the leader reconciles;
//!              │             fence: none writes after its lease
//!              └─ worker     the leader's loop
//!                   │
//!   watches ─> index (compute-domain-core) ─> queue ─> reconcile ─> requests ─> API server
//!                ^                                        │             │
//!                └──────────── what responses say ────────┴─────────────┘
//! ```
//!
//! A reconcile handles one UID: `compute-domain-core` decides on the next request, `api_client` sends it, and the
//! index stores the result. Three modules schedule retries that no watch event triggers: `backoff` after failures,
//! `refusals` for templates that the API server rejects, and `schema` for fields that an older CRD lacks. `reports`
//! writes events for users; `metrics` is for administrators.
//!
//! Cost for the API server: a `ComputeDomain` takes three writes to create and three to delete, one event each time,
//! and no list. When idle, the controller has three watches and renews the lease. `ComputeDomains` whose template
//! name is taken share a fourth watch, and each reads the name once a minute. A rejected template is retried once a
//! minute.
//!
//! With `imex.isolation=channel`, a `ComputeDomain` takes two more writes: the Lease of its channel, and the channel
//! in the status. After its deletion, two more writes follow, ten minutes apart: the release of the Lease and its
//! deletion, each after a read that confirms that the `ComputeDomain` is gone. There is one more watch, of these
//! Leases. A `ComputeDomain` that waits for a channel causes no requests.
//!
//! `worker::claim_cliques` lists the claims of a domain after nodes have reported prepared devices in them: one list,
//! in pages of 500 claims, per burst of reports. It lists one domain at a time, and at most ten per second. A claim
//! without a report, or a domain without claims, causes no list.
//!
//! `node_labeler` runs beside the worker if nodes are to be labelled with their NVLink clique. It handles nodes and
//! `ResourceSlices`, and shares only the lease with the rest.
//!
//! `clique_members` runs beside the worker in driver-managed mode: it maintains the objects from which the IMEX
//! daemons get their peers. Like `node_labeler`, it shares only the lease.
//!
//! The subcommands `apply_crds` and `preflight` are for the chart's Jobs and for scripts.
//!
//! Logs, health, the Kubernetes client and events come from `daemon-runtime`.

mod api_client;
mod apply_crds;
mod args;
mod backoff;
mod clique_members;
mod crd_kind;
mod domain_nodes;
#[cfg(test)]
mod fake_api;
mod fence;
mod go_daemons;
mod lease;
mod leftovers;
mod metrics;
mod namespace_args;
mod node_labeler;
mod preflight;
mod queue;
mod reconcile;
mod references;
mod refusals;
mod refused;
mod reports;
mod run;
mod schema;
mod stored_content;
#[cfg(test)]
mod testing;
mod waiting;
mod wake;
mod watches;
mod worker;

use std::process::ExitCode;

fn main() -> ExitCode {
    daemon_runtime::daemon::main(run::run)
}
