//! A controller that runs in a test, and its environment.

pub(crate) mod logs;
pub(crate) mod nodes;
pub(crate) mod objects;

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use compute_domain_core::Index;
use daemon_runtime::{Events, Readiness};
use k8s_openapi::jiff::Timestamp;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use compute_domain_api::Sharing;

use crate::api_client::{ApiClient, CONTROLLER_NAME};
use crate::domain_nodes::NodesOfDomains;
use crate::fake_api::{Call, FakeApi};
use crate::fence::Fence;
use crate::lease::{Elector, LeaseConfig};
use crate::metrics::Metrics;
use crate::reconcile::{Context, SharedIndex};
use crate::refusals::Refusals;
use crate::reports::Reports;
use crate::run::run_while_leader;
use crate::schema::Schema;
use crate::stored_content::StoredContents;
use crate::waiting::WaitingClaims;
use crate::worker::Worker;

/// Namespace in which the driver-managed mode keeps its objects.
pub(crate) const DRIVER_NAMESPACE: &str = "nvidia";

/// The parts of a controller, as the program makes them.
pub(crate) fn mk_worker(api: &FakeApi, fence: Fence, registry: &mut Registry) -> Worker {
    mk_worker_with(api, fence, registry, None)
}

/// Like [`mk_worker`]; with channels, each ComputeDomain gets its own.
pub(crate) fn mk_worker_with(
    api: &FakeApi,
    fence: Fence,
    registry: &mut Registry,
    channel_count: Option<u32>,
) -> Worker {
    logs::install();
    let client = api.client();
    let index = SharedIndex::new(Index::new(channel_count.map(|count| 1..=count - 1)));
    Metrics::register_channels(registry, index.clone(), now);
    let metrics = Metrics::new(registry, index.clone());
    let context = Context {
        api: ApiClient::new(client.clone(), fence, DRIVER_NAMESPACE),
        reports: Reports::new(Events::new(client.clone(), CONTROLLER_NAME, "pod-1")),
        index,
        refusals: Refusals::default(),
        schema: Schema::default(),
        sharing: Sharing::One,
        stored: StoredContents::default(),
        waiting: WaitingClaims::default(),
        nodes: Arc::default(),
        releasing: Mutex::default(),
        driver_namespaces: vec![DRIVER_NAMESPACE.into()],
        now,
    };
    Worker {
        client,
        context,
        node_labeler: None,
        member_keeper: None,
        go_daemon_remover: None,
        metrics,
        readiness: Readiness::default(),
        shutdown: CancellationToken::new(),
        channels: channel_count.map(|_| DRIVER_NAMESPACE.to_owned()),
        group_claims: false,
    }
}

/// The time by the paused clock of tests.
pub(crate) fn now() -> Timestamp {
    static START: OnceLock<Instant> = OnceLock::new();
    let start: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    let passed = Instant::now().duration_since(*START.get_or_init(Instant::now));
    start + passed
}

/// A running controller.
pub(crate) struct Controller {
    api: FakeApi,
    pub(crate) readiness: Readiness,
    registry: Registry,
    shutdown: CancellationToken,
    task: JoinHandle<()>,
}

impl Controller {
    /// Starts one without leader election.
    pub(crate) fn start(api: &FakeApi) -> Self {
        Self::start_as(api, None, None, |_| {})
    }

    /// Starts one with `imex.withoutClique=taint`.
    pub(crate) fn start_with_taints(api: &FakeApi) -> Self {
        Self::start_as(api, None, None, |worker| {
            worker.context.waiting = WaitingClaims::new(true);
        })
    }

    /// Starts one in the driver-managed mode.
    pub(crate) fn start_driver_managed(api: &FakeApi) -> Self {
        Self::start_as(api, None, Some(256), |worker| {
            worker.context.nodes = Arc::new(NodesOfDomains::new(true));
            worker.member_keeper = Some(nodes::mk_keeper(worker));
            worker.go_daemon_remover = Some(nodes::mk_go_daemon_remover(worker));
        })
    }

    /// Starts one that reconciles while it has the lease.
    pub(crate) fn start_candidate(api: &FakeApi, identity: &str) -> Self {
        let lease = Some(mk_lease_config(identity));
        Self::start_as(api, lease, None, |_| {})
    }

    /// Starts one that gives each domain its own channel, of `count` less one.
    pub(crate) fn start_with_channels(api: &FakeApi, count: u32) -> Self {
        Self::start_as(api, None, Some(count), |_| {})
    }

    /// Starts one with channels that reconciles while it has the lease.
    pub(crate) fn start_candidate_with_channels(api: &FakeApi, identity: &str, count: u32) -> Self {
        let lease = Some(mk_lease_config(identity));
        Self::start_as(api, lease, Some(count), |_| {})
    }

    fn start_as(
        api: &FakeApi,
        lease: Option<LeaseConfig>,
        channel_count: Option<u32>,
        adapt: impl FnOnce(&mut Worker),
    ) -> Self {
        let mut registry = Registry::default();
        let fence = Fence::default();
        let mut worker = mk_worker_with(api, fence.clone(), &mut registry, channel_count);
        adapt(&mut worker);
        let (readiness, shutdown) = (worker.readiness.clone(), worker.shutdown.clone());
        let client = worker.client.clone();
        let task = tokio::spawn(async move {
            match lease {
                None => worker.run().await,
                Some(lease) => {
                    let mut elector = Elector::new(client, lease, fence);
                    run_while_leader(&mut elector, &worker).await;
                }
            }
        });
        Self {
            api: api.clone(),
            readiness,
            registry,
            shutdown,
            task,
        }
    }

    /// Waits until all existing objects are known and the initial requests are made. Clears
    /// the recorded requests.
    pub(crate) async fn settle(&self) {
        self.api
            .until("the controller has started", |api| {
                let looked = api.count(Call::ListNodes) + api.open_watches(Call::WatchGoTemplates);
                looked > 0 && self.readiness.unmet().is_empty()
            })
            .await;
        self.api.forget_requests();
    }

    /// Stops it as SIGTERM does. Returns how long that took.
    pub(crate) async fn stop(self) -> Duration {
        let started = Instant::now();
        self.shutdown.cancel();
        self.task.await.unwrap();
        started.elapsed()
    }

    /// Stops it as SIGKILL does.
    pub(crate) async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }

    /// The text of `/metrics`.
    pub(crate) fn metrics(&self) -> String {
        scrape(&self.registry)
    }
}

fn mk_lease_config(identity: &str) -> LeaseConfig {
    LeaseConfig {
        namespace: DRIVER_NAMESPACE.into(),
        name: "lease".into(),
        identity: identity.into(),
        lease_duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    }
}

/// Panics unless this was less than `longest` ago.
#[track_caller]
pub(crate) fn assert_within(longest: Duration, since: Instant) {
    let elapsed = since.elapsed();
    assert!(elapsed < longest, "{elapsed:?}");
}

/// The metrics of a registry, in the text format.
pub(crate) fn scrape(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    text
}
