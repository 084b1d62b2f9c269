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

use crate::args::{Args, Command};
use crate::cluster::{Cluster, MANAGER, Watched};
use crate::lease::{Elector, LeaseConfig};
use crate::metrics::DomainCounts;
use crate::reconcile::{Context, ReconcileError, reconcile, retry};

/// Domains reconciled at the same time: their requests take turns on few connections, and
/// hundreds are created at once at most.
const CONCURRENCY: u16 = 8;

/// How long a shutdown waits for passes: each is repeated by whoever works next.
const GRACE: Duration = Duration::from_secs(5);

/// The program, from options to its end.
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
    // Everything that can be refused is, before the first log line.
    let settings = imex.resolve()?;
    let lease = LeaseConfig::new(leader_election, &pod_name)
        .map_err(|err| StartError::new(&err, err.hint()))?;
    let readiness = Readiness::default();
    let client = kube
        .client(&readiness.condition("api-server", "not reached yet"))
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
        MANAGER
    } else {
        &pod_name
    };
    let events = Events::new(client.clone(), MANAGER, instance);
    let context = Arc::new(Context::new(Cluster::new(client.clone()), events));
    let term = Term {
        client: client.clone(),
        context,
        counts,
        readiness,
        shutdown,
    };
    match lease {
        None => term.work().await,
        Some(config) => lead(&mut Elector::new(client, config), &term).await,
    }
    info!("shutdown");
    Ok(())
}

fn print_crd() -> Result<(), StartError> {
    let hint = "report this: the CustomResourceDefinition is made by this program";
    let yaml = serde_saphyr::to_string(&ComputeDomain::crd())
        .map_err(|err| StartError::new(&err, hint))?;
    std::io::stdout()
        .write_all(yaml.as_bytes())
        .map_err(|err| StartError::new(&err, "make standard output writable"))
}

/// Works only while holding the lease, and gives it up at the end. A lost lease ends the term, not
/// the process: it is lost when the API server is down, and comes back with it.
async fn lead(elector: &mut Elector, term: &Term) {
    while term
        .shutdown
        .run_until_cancelled(elector.acquire())
        .await
        .is_some()
    {
        tokio::select! {
            () = term.work() => return elector.release().await,
            // Dropping the work drops its requests: none follows once another may work.
            () = elector.keep() => {}
        }
    }
}

/// What each term of work starts from: its watches are new.
struct Term {
    client: Client,
    context: Arc<Context>,
    counts: DomainCounts,
    readiness: Readiness,
    shutdown: CancellationToken,
}

fn controller(client: &Client) -> Controller<Watched> {
    let domains: Api<Watched> = Api::all(client.clone());
    let templates: Api<PartialObjectMeta<ResourceClaimTemplate>> = Api::all(client.clone());
    let controller = Controller::new(domains, watcher::Config::default())
        .with_config(controller::Config::default().concurrency(CONCURRENCY))
        .trigger_backoff(watch_backoff());
    let store = controller.store();
    // Of both modes: the end of a daemon template ends a refusal.
    let labelled = watcher::Config::default().labels(DOMAIN_LABEL);
    controller.watches(templates, labelled, move |template| {
        domain_of(&template, &store)
    })
}

/// Between attempts to watch. kube's default waits up to a minute, twice in a row when the server
/// lost its history while it was away; this is one client, which may ask more often.
fn watch_backoff() -> watcher::ExponentialBackoff {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(500))
        .with_max_delay(Duration::from_secs(4))
        .with_jitter()
        .without_max_times()
        .into()
}

/// The domain whose UID the template carries.
fn domain_of(
    template: &PartialObjectMeta<ResourceClaimTemplate>,
    domains: &Store<Watched>,
) -> Option<ObjectRef<Watched>> {
    let uid = template.labels().get(DOMAIN_LABEL)?;
    let domain = domains.find(|domain| domain.uid().as_ref() == Some(uid))?;
    Some(ObjectRef::from_obj(&*domain))
}

impl Term {
    /// Reconciles until the shutdown.
    async fn work(&self) {
        let Self {
            client,
            context,
            counts,
            readiness,
            shutdown,
        } = self;
        let listed = readiness.condition("compute-domains", "not listed yet");
        let listing = context.cluster().wait_until_listed(&listed);
        if shutdown.run_until_cancelled(listing).await.is_none() {
            return;
        }
        let controller = controller(client);
        counts.follow(controller.store());
        let mut complaint = String::new();
        let running = controller
            .graceful_shutdown_on(shutdown.clone().cancelled_owned())
            .run(reconcile, retry, context.clone())
            .for_each(|outcome| {
                hear(&mut complaint, outcome.err());
                std::future::ready(())
            });
        tokio::select! {
            () = running => {}
            () = async { shutdown.cancelled().await; sleep(GRACE).await } => {
                warn!("shutdown before the last requests were answered");
            }
        }
    }
}

/// Says what the watches suffer from, once per change; what a pass suffers from is said already.
fn hear(complaint: &mut String, error: Option<controller::Error<ReconcileError, watcher::Error>>) {
    match error {
        Some(controller::Error::QueueError(err)) => {
            let text = error_chain(&err);
            if *complaint != text {
                warn!(error = text, "watch failed; it is tried again");
                *complaint = text;
            }
        }
        Some(err) => debug!(error = %err, "pass ended"),
        None => complaint.clear(),
    }
}
