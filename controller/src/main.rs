//! The controller of `ComputeDomains`: creates a `ResourceClaimTemplate` for each, writes its status,
//! and deletes the template with it.
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
//! A reconcile is for one UID: `compute-domain-core` decides on the next request, `api_client` makes
//! it, the index learns what it changed. What has no event of its own to wait for is tried again:
//! failures by `backoff`, templates that the API server refuses by `refusals`, fields that an older CRD
//! lacks by `schema`. `reports` tells users, as events; `metrics` tells operators.
//!
//! What it costs the API server: a `ComputeDomain` three writes to create and three to delete, and an
//! event each; none of it a list. Idle, three watches and the renewal of the lease. One that waits for
//! somebody else's template name shares a fourth watch with all others that do, and reads the name
//! once a minute; one whose template is refused tries once a minute.
//!
//! With `imex.isolation=channel`, a `ComputeDomain` costs two writes more, the Lease of its channel and the
//! status that says which it is, and after its end two more, ten minutes apart: the release of the Lease
//! and its deletion, each behind one read that shows that the `ComputeDomain` is gone. One more watch, of
//! these Leases. Who waits for a channel asks nothing.
//!
//! `worker::claim_cliques` lists the claims of a domain after its nodes have reported prepared devices in
//! them: one list, of 500 claims each page, for a burst of reports; of all domains, one at a time and ten
//! a second at most. A claim without a report, or a domain without claims, costs none.
//!
//! `node_labeler` runs beside the worker if the operator wants nodes to have a label for their NVLink
//! clique. It is about nodes and `ResourceSlices`, and shares nothing with the rest but the lease.
//!
//! `clique_members` runs beside the worker where the driver runs one `nvidia-imex` on each node: it keeps the
//! objects from which the daemons learn their peers. Like `node_labeler`, it shares nothing but the lease.
//!
//! Two subcommands are for the chart's Jobs and for scripts: `apply_crds` and `preflight`.
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
