//! The leader's loop: watch events go into the index and the queue; queued UIDs are reconciled, several at the same
//! time.

mod claim_cliques;
mod cliques;
mod error_log;
mod group_numbers;
mod leases;
mod lost_labels;
mod take;

use std::collections::BTreeSet;
use std::time::Duration;

use compute_domain_core::{Domain, Key, StatusSchema};
use daemon_runtime::Readiness;
use dra_common::error_chain;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use kube::Client;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use claim_cliques::ClaimCliques;
use error_log::ErrorLog;
use group_numbers::GroupNumbers;
use lost_labels::LostLabels;

use crate::backoff::Backoff;
use crate::clique_members::MemberKeeper;
use crate::go_daemons::GoDaemonRemover;
use crate::leftovers;
use crate::metrics::Metrics;
use crate::node_labeler::NodeLabeler;
use crate::queue::Queue;
use crate::reconcile::{Context, ReconcileError};
use crate::reports::name;
use crate::wake::wake_at;
use crate::watches::{CONDITIONS, Watches};

/// Number of concurrent reconciles: enough to use an API server with a latency of a few milliseconds, and few enough
/// to leave capacity for other clients.
const CONCURRENCY: usize = 16;

/// How long a shutdown waits for running reconciles. The next leader finishes what is cut off.
const SHUTDOWN_GRACE: Duration = Duration::from_millis(300);

/// How often the full status is tried again with an older CRD.
const SCHEMA_PROBE: Duration = Duration::from_secs(20);

/// Number of consecutive failures after which an event is written.
const REPORTED_FAILURES: u32 = 4;

/// Watches and reconciles. Can run several times, each time with new watches.
pub(crate) struct Worker {
    pub(crate) client: Client,
    pub(crate) context: Context,
    /// Labels nodes, if enabled.
    pub(crate) node_labeler: Option<NodeLabeler>,
    /// Maintains the members of cliques, in driver-managed mode.
    pub(crate) member_keeper: Option<MemberKeeper>,
    /// Removes IMEX daemons of the Go driver, in driver-managed mode.
    pub(crate) go_daemon_remover: Option<GoDaemonRemover>,
    pub(crate) metrics: Metrics,
    pub(crate) readiness: Readiness,
    pub(crate) shutdown: CancellationToken,
    /// Namespace of the channels' Leases, if each ComputeDomain has its own channel.
    pub(crate) channels: Option<String>,
    /// Whether group claims are enabled. Their channels are never assigned to `ComputeDomains`.
    pub(crate) group_claims: bool,
}

/// One run of the worker.
struct Run<'a> {
    worker: &'a Worker,
    watches: Watches,
    queue: Queue,
    backoff: Backoff,
    lost_labels: LostLabels,
    cliques: ClaimCliques,
    group_numbers: GroupNumbers,
    jobs: FuturesUnordered<BoxFuture<'a, Finished>>,
    /// Objects still to be listed. Nothing is reconciled before: an unknown template would be created again, and a
    /// channel assigned twice.
    unlisted: Unlisted,
    /// When an older CRD is probed again; `None` if it is not known to be older.
    probe_at: Option<Instant>,
    log: ErrorLog,
}

/// Objects still to be listed since the start.
#[derive(Debug)]
struct Unlisted(BTreeSet<Watched>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Watched {
    Domains,
    Templates,
    Claims,
    Leases,
    GroupNumbers,
}

/// The result of a job.
enum Finished {
    Reconciled {
        key: Key,
        took: Duration,
        outcome: Result<Option<Instant>, ReconcileError>,
    },
    /// Whether the CRD has every field.
    Probed(bool),
    /// The search for leftovers of the Go driver's driver-managed mode is done.
    LeftoversReported,
    LostLabel(lost_labels::LabelJobResult),
    Cliques(claim_cliques::Listed),
    GroupNumbers(group_numbers::GroupChannels),
}

// === impl Worker ===

impl Worker {
    /// Reconciles until the shutdown.
    pub(crate) async fn run(&self) {
        self.context.index.lock().clear();
        self.context.releasing().clear();
        self.context.waiting.clear();
        self.context.nodes.clear();
        self.metrics.set_cliques(0, 0);
        let mut run = Run::new(self);
        tokio::select! {
            () = run.until_shutdown() => {}
            () = self.label_nodes() => {}
            () = self.keep_members() => {}
            () = self.remove_go_daemons() => {}
        }
        let rest = async { while run.jobs.next().await.is_some() {} };
        if timeout(SHUTDOWN_GRACE, rest).await.is_err() {
            warn!("shutting down before the last reconciles have finished");
        }
    }

    /// Never ends.
    async fn label_nodes(&self) {
        match &self.node_labeler {
            Some(keeper) => keeper.run().await,
            None => std::future::pending().await,
        }
    }

    /// Never ends.
    async fn keep_members(&self) {
        match &self.member_keeper {
            // Boxed because it is large and unused in host-managed mode.
            Some(keeper) => Box::pin(keeper.run()).await,
            None => std::future::pending().await,
        }
    }

    /// Never ends.
    async fn remove_go_daemons(&self) {
        match &self.go_daemon_remover {
            // Boxed because it is large and rarely used.
            Some(remover) => Box::pin(remover.run()).await,
            None => std::future::pending().await,
        }
    }

    /// Cleans up after the lease is lost: nothing is watched any more.
    pub(crate) fn stopped(&self) {
        if let Some(remover) = &self.go_daemon_remover {
            remover.stopped();
        }
        if let Some(keeper) = &self.member_keeper {
            keeper.stopped();
        }
        if let Some(keeper) = &self.node_labeler {
            keeper.stopped();
        }
        for name in CONDITIONS {
            self.readiness.remove_condition(name);
        }
        self.metrics.set_queue_depth(0);
        self.metrics.set_cliques(0, 0);
        self.context.index.lock().clear();
        self.context.nodes.clear();
    }
}

// === impl Run ===

impl<'a> Run<'a> {
    fn new(worker: &'a Worker) -> Self {
        let looks = worker.channels.is_some() && !worker.group_claims;
        Self {
            worker,
            watches: Watches::start(
                &worker.client,
                &worker.readiness,
                worker.channels.as_deref(),
            ),
            queue: Queue::default(),
            backoff: Backoff::default(),
            lost_labels: LostLabels::default(),
            cliques: ClaimCliques::default(),
            group_numbers: GroupNumbers::new(looks),
            jobs: FuturesUnordered::new(),
            unlisted: Unlisted::new(worker.channels.is_some(), looks),
            probe_at: None,
            log: ErrorLog::default(),
        }
    }

    async fn until_shutdown(&mut self) {
        loop {
            self.start_jobs();
            let full = self.jobs.len() >= CONCURRENCY;
            tokio::select! {
                () = self.worker.shutdown.cancelled() => return,
                Some(event) = self.watches.next() => self.take(event),
                Some(finished) = self.jobs.next(), if !self.jobs.is_empty() => {
                    self.finish(finished);
                }
                () = self.queue.wait(), if !full && self.unlisted.is_empty() => {}
                () = wake_at(self.probe_at) => self.start_probe(),
                () = self.group_numbers.wait() => self.start_group_check(),
                () = self.lost_labels.wait(), if self.unlisted.is_empty() => {}
                () = self.cliques.wait(), if self.unlisted.is_empty() => {}
                () = self.worker.context.nodes.wait() => self.nodes_changed(),
                () = self.worker.context.waiting.wait() => {
                    let due = self.worker.context.waiting.take_due();
                    self.add(&due);
                }
            }
        }
    }

    fn start_jobs(&mut self) {
        let context = &self.worker.context;
        let woken = context.index.lock().take_woken((context.now)());
        self.add(&woken);
        let now = Instant::now();
        while self.unlisted.is_empty() && self.jobs.len() < CONCURRENCY {
            let Some(key) = self.queue.pop(now) else {
                break;
            };
            let context = &self.worker.context;
            context.refusals.start_handover(&key);
            let domain = context.index.lock().domain(&key);
            let deleting = is_deleting(domain.as_deref());
            match self.backoff.not_before(&key, deleting) {
                Some(at) => {
                    self.queue.done(&key, Some(at));
                    self.end_handover(&key);
                }
                None => self.jobs.push(self.reconcile(key)),
            }
        }
        while self.unlisted.is_empty()
            && let Some(job) = self.lost_labels.next(&self.worker.context.api)
        {
            self.jobs.push(job.map(Finished::LostLabel).boxed());
        }
        if self.unlisted.is_empty()
            && let Some(list) = self.next_list()
        {
            self.jobs.push(list);
        }
        let depth = self.queue.depth() + self.jobs.len();
        self.worker.metrics.set_queue_depth(depth);
    }

    fn reconcile(&self, key: Key) -> BoxFuture<'a, Finished> {
        let context = &self.worker.context;
        let failures = self.backoff.failures(&key);
        async move {
            let started = Instant::now();
            let outcome = context.reconcile(&key, failures).await;
            Finished::Reconciled {
                key,
                took: started.elapsed(),
                outcome,
            }
        }
        .boxed()
    }

    fn finish(&mut self, finished: Finished) {
        match finished {
            Finished::Reconciled { key, took, outcome } => {
                self.worker.metrics.reconciled(took);
                self.reconciled(&key, outcome);
                self.end_handover(&key);
                let context = &self.worker.context;
                let waits = context.refusals.any_name_taken();
                self.watches.watch_other_templates(waits);
                if context.schema.is_reduced() && self.probe_at.is_none() {
                    self.probe_at = Some(Instant::now() + SCHEMA_PROBE);
                }
            }
            Finished::Probed(true) => {
                self.probe_at = None;
                self.worker.context.schema.set_full();
                // Their conditions are missing.
                self.add_all();
            }
            Finished::Probed(false) => self.probe_at = Some(Instant::now() + SCHEMA_PROBE),
            Finished::LeftoversReported => {}
            Finished::GroupNumbers(seen) => self.finish_group_check(&seen),
            Finished::Cliques(listed) => self.finish_list(listed),
            Finished::LostLabel(done) => {
                let key = self.lost_labels.finish(done);
                self.add(key.as_slice());
            }
        }
    }

    fn reconciled(&mut self, key: &Key, outcome: Result<Option<Instant>, ReconcileError>) {
        match outcome {
            Ok(again) => {
                self.backoff.reset(key);
                self.queue.done(key, again);
            }
            Err(err) => {
                let at = self.failed(key, &err);
                self.queue.done(key, Some(at));
            }
        }
    }

    /// Returns when the key is retried.
    fn failed(&mut self, key: &Key, err: &ReconcileError) -> Instant {
        let Worker {
            context, metrics, ..
        } = self.worker;
        let domain = context.index.lock().domain(key);
        let deleting = is_deleting(domain.as_deref());
        let (attempt, delay) = self.backoff.record_failure(key, deleting);
        metrics.failed(&err.code());
        let error = error_chain(err);
        warn!(
            domain = domain.as_deref().map(name),
            uid = &**key,
            attempt,
            retry_in = ?delay,
            error,
            "reconcile failed"
        );
        if attempt >= REPORTED_FAILURES {
            match (domain, err) {
                (Some(domain), _) => context.reports.keeps_failing(&domain, &error),
                (None, ReconcileError::UndeletableTemplate(kept)) => {
                    context.reports.keeps_failing_for(&kept.template, &error);
                }
                (None, _) => {}
            }
        }
        Instant::now() + delay
    }

    fn start_group_check(&mut self) {
        let context = &self.worker.context;
        let look = self.group_numbers.look(&context.api, context.now);
        self.jobs.push(look.map(Finished::GroupNumbers).boxed());
    }

    fn finish_group_check(&mut self, seen: &group_numbers::GroupChannels) {
        let first = self.group_numbers.seen(seen);
        self.worker.context.index.lock().set_first_channel(first);
        self.listed(Watched::GroupNumbers);
    }

    fn start_probe(&mut self) {
        self.probe_at = None;
        let context = &self.worker.context;
        let Some(domain) = context.index.lock().any_live_domain() else {
            self.probe_at = Some(Instant::now() + SCHEMA_PROBE);
            return;
        };
        let has_channels = self.worker.channels.is_some();
        let probe = async move {
            let schema = StatusSchema {
                channel: has_channels,
                ..StatusSchema::FULL
            };
            let tried = context.api.try_status(&domain, schema).await;
            if let Err(err) = &tried {
                debug!(
                    error = error_chain(err),
                    "the CRD still lacks status fields"
                );
            }
            Finished::Probed(tried.is_ok())
        };
        self.jobs.push(probe.boxed());
    }

    /// All objects that existed at the start are known.
    fn all_listed(&mut self) {
        self.add_all();
        self.check_reported_nodes();
        let context = &self.worker.context;
        let client = self.worker.client.clone();
        // Otherwise the remover handles them.
        if self.worker.go_daemon_remover.is_none() {
            let look = async move {
                leftovers::report(&client, context).await;
                Finished::LeftoversReported
            };
            self.jobs.push(look.boxed());
        }
        self.lost_labels.search();
    }
}

fn is_deleting(domain: Option<&Domain>) -> bool {
    domain.is_some_and(Domain::is_being_deleted)
}

// === impl Unlisted ===

impl Unlisted {
    /// Claims matter only for channels.
    fn new(has_channels: bool, looks_at_groups: bool) -> Self {
        let of_channels = [Watched::Claims, Watched::Leases];
        let of_channels = of_channels.into_iter().filter(|_| has_channels);
        let of_groups = looks_at_groups.then_some(Watched::GroupNumbers);
        Self(
            [Watched::Domains, Watched::Templates]
                .into_iter()
                .chain(of_channels)
                .chain(of_groups)
                .collect(),
        )
    }

    /// A watch has completed its list. Returns whether it was the last one.
    fn listed(&mut self, which: Watched) -> bool {
        self.0.remove(&which) && self.0.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests;
