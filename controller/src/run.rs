use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

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
use crate::metrics;
use crate::reconcile::{Context, ReconcileError, reconcile, retry};

/// Domains reconciled at the same time: their requests take turns on few connections, and
/// hundreds are created at once at most.
const CONCURRENCY: u16 = 8;

/// How long a shutdown waits for passes: each is repeated by whoever works next.
const GRACE: Duration = Duration::from_secs(5);

/// How late readiness may notice the first list.
const ASK_AGAIN: Duration = Duration::from_secs(1);

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

    let controller = controller(&client);
    let mut registry = Registry::default();
    metrics::register(&mut registry, controller.store());
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
    let work = work(controller, context, readiness, shutdown.clone());
    match lease {
        None => work.await,
        Some(config) => lead(Elector::new(client, config), work, shutdown).await?,
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

/// Works only while holding the lease, and gives it up at the end.
async fn lead(
    mut elector: Elector,
    work: impl Future<Output = ()>,
    shutdown: CancellationToken,
) -> Result<(), StartError> {
    if shutdown
        .run_until_cancelled(elector.acquire())
        .await
        .is_none()
    {
        return Ok(());
    }
    let lost = tokio::select! {
        () = work => false,
        () = elector.keep() => true,
    };
    if lost {
        // A new term starts with a fresh process.
        return Err(StartError::new(
            &LeaseLost,
            "nothing to do: the pod starts again and waits for the lease",
        ));
    }
    elector.release().await;
    Ok(())
}

/// Another replica may be working already.
#[derive(Debug, thiserror::Error)]
#[error("the lease was lost")]
struct LeaseLost;

fn controller(client: &Client) -> Controller<Watched> {
    let domains: Api<Watched> = Api::all(client.clone());
    let templates: Api<PartialObjectMeta<ResourceClaimTemplate>> = Api::all(client.clone());
    let controller = Controller::new(domains, watcher::Config::default())
        .with_config(controller::Config::default().concurrency(CONCURRENCY));
    let store = controller.store();
    // Of both modes: the end of a daemon template ends a refusal.
    let labelled = watcher::Config::default().labels(DOMAIN_LABEL);
    controller.watches(templates, labelled, move |template| {
        domain_of(&template, &store)
    })
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

/// Reconciles until `shutdown`.
async fn work(
    controller: Controller<Watched>,
    context: Arc<Context>,
    readiness: Readiness,
    shutdown: CancellationToken,
) {
    let listed = readiness.condition("compute-domains", "not listed yet");
    let store = controller.store();
    tokio::spawn(async move {
        until_listed(&store).await;
        listed.ready();
    });
    let mut complaint = String::new();
    let running = controller
        .graceful_shutdown_on(shutdown.clone().cancelled_owned())
        .run(reconcile, retry, context)
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

/// Waits for the first list. The controller waits for it, too, and kube-runtime 5
/// wakes only the last of several waiters: so this one asks again by itself.
async fn until_listed(store: &Store<Watched>) {
    while tokio::time::timeout(ASK_AGAIN, store.wait_until_ready()).await.is_err() {}
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
