use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use backon::ExponentialBuilder;
use compute_domain_api::crd::ComputeDomain;
use compute_domain_api::names::DOMAIN_LABEL;
use futures_util::StreamExt as _;
use imex_runtime::{Events, Readiness, StartError, error_chain, log_settings, signals};
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use kube::core::PartialObjectMeta;
use kube::runtime::controller::{self, Controller};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher;
use kube::{Api, Client, CustomResourceExt as _, ResourceExt as _};
use prometheus_client::registry::Registry;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::api_client::{ApiClient, CONTROLLER_NAME, RawDomain};
use crate::args::{Args, Command};
use crate::lease::{Elector, LeaseConfig};
use crate::metrics::DomainCounts;
use crate::reconcile::{Context, ReconcileError, reconcile, retry};

/// How many domains are reconciled at the same time. Their requests share few connections, and at
/// most some hundred domains are created at once.
const CONCURRENCY: u16 = 8;

/// How long a shutdown waits for running reconciles. What is cut short is done by the next leader.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// Runs the controller until a signal ends it.
///
/// # Errors
/// Only for what a person has to change: see [`StartError`].
pub(crate) async fn run(args: Args) -> Result<(), StartError> {
    let Args {
        pod_name,
        leader_election,
        imex,
        http,
        kube,
        log,
        command,
    } = args;
    if let Some(Command::Crd) = command {
        return print_crd();
    }
    // Every configuration error is found before the first log line.
    let settings = imex.resolve()?;
    let lease = LeaseConfig::new(leader_election, &pod_name)
        .map_err(|err| StartError::new(&err, err.hint()))?;
    let readiness = Readiness::default();
    let client = kube
        .client(&readiness.add_condition("api-server", "not reached yet"))
        .await?;
    let server = http.bind().await?;
    let shutdown = signals::shutdown()?;
    log.install()?;
    log_settings(&settings);

    let counts = DomainCounts::default();
    let mut registry = Registry::default();
    registry.register_collector(Box::new(counts.clone()));
    if let Some(server) = server {
        tokio::spawn(server.serve(readiness.clone(), registry, shutdown.clone()));
    }

    let instance = if pod_name.is_empty() {
        CONTROLLER_NAME
    } else {
        &pod_name
    };
    let events = Events::new(client.clone(), CONTROLLER_NAME, instance);
    let context = Arc::new(Context::new(ApiClient::new(client.clone()), events));
    let worker = Worker {
        client: client.clone(),
        context,
        counts,
        readiness,
        shutdown,
    };
    match lease {
        None => worker.run().await,
        Some(config) => run_while_leader(&mut Elector::new(client, config), &worker).await,
    }
    info!("shutdown complete");
    Ok(())
}

fn print_crd() -> Result<(), StartError> {
    let hint = "report this as a bug: the program contains the CustomResourceDefinition";
    let yaml = serde_saphyr::to_string(&ComputeDomain::crd())
        .map_err(|err| StartError::new(&err, hint))?;
    std::io::stdout()
        .write_all(yaml.as_bytes())
        .map_err(|err| StartError::new(&err, "make standard output writable"))
}

/// Reconciles only while holding the lease, and releases it at the end. When the lease is lost, the
/// process stays and becomes a candidate again: an API server that is down takes the lease of every
/// leader.
async fn run_while_leader(elector: &mut Elector, worker: &Worker) {
    while worker
        .shutdown
        .run_until_cancelled(elector.acquire())
        .await
        .is_some()
    {
        tokio::select! {
            () = worker.run() => return elector.release().await,
            // This drops the worker's requests: none is sent once another replica may lead.
            () = elector.renew_until_lost() => {}
        }
    }
}

/// Watches and reconciles. It can run several times, each time with new watches.
struct Worker {
    client: Client,
    context: Arc<Context>,
    counts: DomainCounts,
    readiness: Readiness,
    shutdown: CancellationToken,
}

fn controller(client: &Client) -> Controller<RawDomain> {
    let domains: Api<RawDomain> = Api::all(client.clone());
    let templates: Api<PartialObjectMeta<ResourceClaimTemplate>> = Api::all(client.clone());
    let controller = Controller::new(domains, watcher::Config::default())
        .with_config(controller::Config::default().concurrency(CONCURRENCY))
        .trigger_backoff(watch_backoff());
    let store = controller.store();
    // Templates of the driver-managed mode, too: when the last one goes, a rejection ends.
    let labelled = watcher::Config::default().labels(DOMAIN_LABEL);
    controller.watches(templates, labelled, move |template| {
        domain_of(&template, &store)
    })
}

/// Pauses between attempts to watch. kube's default is up to a minute, and two in a row if the
/// server has lost its history during an outage; one client may well ask more often.
fn watch_backoff() -> watcher::ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(500))
        .with_max_delay(Duration::from_secs(4))
        .with_jitter()
        .without_max_times()
        .into()
}

/// The domain whose UID is in the template's label.
fn domain_of(
    template: &PartialObjectMeta<ResourceClaimTemplate>,
    domains: &Store<RawDomain>,
) -> Option<ObjectRef<RawDomain>> {
    let uid = template.labels().get(DOMAIN_LABEL)?;
    let domain = domains.find(|domain| domain.uid().as_ref() == Some(uid))?;
    Some(ObjectRef::from_obj(&*domain))
}

// === impl Worker ===

impl Worker {
    /// Reconciles until the shutdown.
    async fn run(&self) {
        let Self {
            client,
            context,
            counts,
            readiness,
            shutdown,
        } = self;
        let listed = readiness.add_condition("compute-domains", "not listed yet");
        let listing = context.api().wait_until_listed(&listed);
        if shutdown.run_until_cancelled(listing).await.is_none() {
            return;
        }
        let controller = controller(client);
        counts.set_store(controller.store());
        let mut watch_error = None;
        let running = controller
            .graceful_shutdown_on(shutdown.clone().cancelled_owned())
            .run(reconcile, retry, context.clone())
            .for_each(|outcome| {
                log_watch_error(&mut watch_error, outcome.err());
                std::future::ready(())
            });
        tokio::select! {
            () = running => {}
            () = async { shutdown.cancelled().await; sleep(SHUTDOWN_GRACE).await } => {
                warn!("shutting down before the last reconciles have finished");
            }
        }
    }
}

/// Logs an error of the watches once, until it changes. Errors of a reconcile are logged by
/// [`retry`] already.
fn log_watch_error(
    logged: &mut Option<String>,
    error: Option<controller::Error<ReconcileError, watcher::Error>>,
) {
    match error {
        Some(controller::Error::QueueError(err)) => {
            let text = error_chain(&err);
            if logged.as_ref() != Some(&text) {
                warn!(error = text, "watch failed; retrying");
                *logged = Some(text);
            }
        }
        Some(err) => debug!(error = %err, "reconcile ended"),
        None => *logged = None,
    }
}
