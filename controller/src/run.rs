use std::io::Write as _;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use compute_domain_api::{Isolation, Mode, Placement, Settings};
use compute_domain_core::Index;
use daemon_runtime::{Events, Readiness, StartError, log_settings, signals};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use prometheus_client::registry::Registry;
use tracing::info;

use crate::api_client::{ApiClient, CONTROLLER_NAME};
use crate::args::{Args, Command};
use crate::clique_members::{MemberKeeper, MemberMetrics};
use crate::crd_kind::CrdKind;
use crate::domain_nodes::NodesOfDomains;
use crate::fence::Fence;
use crate::go_daemons::{GoDaemonMetrics, GoDaemonRemover};
use crate::lease::{Elector, LeaseConfig};
use crate::metrics::Metrics;
use crate::namespace_args::NamespaceArgs;
use crate::node_labeler::{CliqueMetrics, NodeLabeler};
use crate::reconcile::{Context, SharedIndex};
use crate::refusals::Refusals;
use crate::reports::Reports;
use crate::schema::Schema;
use crate::stored_content::StoredContents;
use crate::waiting::WaitingClaims;
use crate::worker::Worker;
use crate::{apply_crds, preflight};

/// Runs a subcommand, or otherwise the controller until a signal ends it.
///
/// # Errors Only errors that the administrator must fix: see [`StartError`].
pub(crate) async fn run(args: Args) -> Result<ExitCode, StartError> {
    let Args {
        pod_name,
        leader_election,
        namespaces,
        imex,
        clique_label,
        daemons,
        http,
        kube,
        log,
        command,
    } = args;
    match command {
        Some(Command::Crd { kind }) => return print_crd(kind),
        Some(Command::ApplyCrds(args)) => return apply_crds::run(args).await,
        Some(Command::Preflight(args)) => return preflight::run(*args).await,
        None => {}
    }
    // All configuration errors are found before the first log line.
    let settings = imex.resolve()?;
    let label_nodes = clique_label.resolve(&settings)?;
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

    let channels = (settings.isolation == Isolation::Channel).then(|| namespaces.own().to_owned());
    let given = channels.as_ref().map(|_| settings.domain_channels());
    let index = SharedIndex::new(Index::new(given));
    let instance = if pod_name.is_empty() {
        CONTROLLER_NAME
    } else {
        &pod_name
    };
    let events = Events::new(client.clone(), CONTROLLER_NAME, instance);
    let runs_daemons = settings.mode == Mode::DriverManaged;
    let (registry, metrics) = register_metrics(&index, channels.is_some(), runs_daemons, &events);
    if let Some(server) = server {
        tokio::spawn(server.serve(readiness.clone(), registry, shutdown.clone()));
    }

    let fence = Fence::default();
    let api = ApiClient::new(client.clone(), fence.clone(), namespaces.own());
    let node_labeler = label_nodes.then(|| NodeLabeler {
        client: client.clone(),
        api: api.clone(),
        events: events.clone(),
        readiness: readiness.clone(),
        metrics: metrics.cliques,
        channels: settings.group_channels(),
        isolates: channels.is_some(),
    });
    let context = context(
        api.clone(),
        Reports::new(events.clone()),
        index,
        &settings,
        &namespaces,
    );
    let (member_metrics, go_metrics) = metrics.driver_managed.unzip();
    let go_daemon_remover =
        go_metrics.map(|metrics| go_daemon_remover(&client, &context, &readiness, metrics));
    let member_keeper = member_metrics.map(|metrics| MemberKeeper {
        client: client.clone(),
        api,
        events,
        nodes: context.nodes.clone(),
        readiness: readiness.clone(),
        metrics,
        namespace: namespaces.own().into(),
        daemons: daemons.selector,
        max_nodes: daemons.max_nodes,
        force_after: daemons.force_after.0,
    });
    let worker = Worker {
        client: client.clone(),
        context,
        node_labeler,
        member_keeper,
        go_daemon_remover,
        metrics: metrics.controller,
        readiness,
        shutdown,
        channels,
        group_claims: settings.group_claims,
    };
    match lease {
        None => {
            worker.metrics.set_leader(true);
            worker.run().await;
        }
        Some(config) => run_while_leader(&mut Elector::new(client, config, fence), &worker).await,
    }
    info!("shutdown complete");
    Ok(ExitCode::SUCCESS)
}

fn go_daemon_remover(
    client: &Client,
    context: &Context,
    readiness: &Readiness,
    metrics: GoDaemonMetrics,
) -> GoDaemonRemover {
    GoDaemonRemover {
        client: client.clone(),
        api: context.api.clone(),
        reports: context.reports.clone(),
        index: context.index.clone(),
        readiness: readiness.clone(),
        metrics,
        namespaces: context.driver_namespaces.clone(),
    }
}

/// Creates the state that reconciles share.
fn context(
    api: ApiClient,
    reports: Reports,
    index: SharedIndex,
    settings: &Settings,
    namespaces: &NamespaceArgs,
) -> Context {
    Context {
        api,
        reports,
        index,
        refusals: Refusals::default(),
        schema: Schema::default(),
        stored: StoredContents::default(),
        waiting: WaitingClaims::new(settings.without_clique == Placement::Taint),
        nodes: Arc::new(NodesOfDomains::new(settings.mode == Mode::DriverManaged)),
        releasing: Mutex::default(),
        sharing: settings.sharing,
        driver_namespaces: namespaces.of_driver(),
        now: Timestamp::now,
    }
}

/// Metrics, grouped by owner.
pub(crate) struct AllMetrics {
    pub(crate) controller: Metrics,
    pub(crate) cliques: CliqueMetrics,
    /// For the members of cliques, and for the Go driver's daemons.
    pub(crate) driver_managed: Option<(MemberMetrics, GoDaemonMetrics)>,
}

/// Registers all metrics except conditions, which the server adds. `isolates` adds those of channels, and
/// `runs_daemons` those of driver-managed mode.
pub(crate) fn register_metrics(
    index: &SharedIndex,
    isolates: bool,
    runs_daemons: bool,
    events: &Events,
) -> (Registry, AllMetrics) {
    let mut registry = Registry::default();
    let controller = Metrics::new(&mut registry, index.clone());
    if isolates {
        Metrics::register_channels(&mut registry, index.clone(), Timestamp::now);
    }
    let cliques = CliqueMetrics::new(&mut registry);
    let driver_managed = runs_daemons.then(|| {
        let members = MemberMetrics::new(&mut registry);
        (members, GoDaemonMetrics::new(&mut registry))
    });
    events.register_metrics(&mut registry);
    let metrics = AllMetrics {
        controller,
        cliques,
        driver_managed,
    };
    (registry, metrics)
}

/// Reconciles only while holding the lease, and releases it at the end. When the lease is lost, the process keeps
/// running as a candidate: an unavailable API server makes every leader lose its lease.
pub(crate) async fn run_while_leader(elector: &mut Elector, worker: &Worker) {
    let shutdown = &worker.shutdown;
    while shutdown
        .run_until_cancelled(elector.acquire())
        .await
        .is_some()
    {
        worker.metrics.set_leader(true);
        if elector.take_rewound() {
            worker.context.reports.history_lost(&elector.reference());
        }
        tokio::select! {
            () = worker.run() => return elector.release().await,
            // This cancels the worker's requests: none is sent once another replica may lead.
            () = elector.renew_until_lost() => {}
        }
        worker.metrics.set_leader(false);
        worker.stopped();
    }
}

fn print_crd(kind: CrdKind) -> Result<ExitCode, StartError> {
    let hint = "this is a bug; please report it with this log";
    let yaml = serde_saphyr::to_string(&kind.crd()).map_err(|err| StartError::new(&err, hint))?;
    std::io::stdout()
        .write_all(yaml.as_bytes())
        .map_err(|err| StartError::new(&err, "make standard output writable"))?;
    Ok(ExitCode::SUCCESS)
}
