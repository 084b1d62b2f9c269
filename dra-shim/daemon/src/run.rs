//! Builds and runs the daemon.

use std::fs;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use daemon_runtime::{Events, Liveness, Readiness, StartError, observe_watch, signals};
use nvml_clique::{DriverRoot, FabricWatch, NvmlProbe, WatchConfig};
use prometheus_client::registry::Registry;
use tokio::sync::{Notify, mpsc};
use tracing::info;

use crate::args::{Args, Command};
use crate::certificates::Certificates;
use crate::check;
use crate::core::Core;
use crate::core::membership::NodeIdentity;
use crate::files::Files;
use crate::metrics::Metrics;
use crate::orphans::Orphans;
use crate::query::Query;
use crate::reports::Reports;
use crate::supervisor::Supervisor;

const PROGRAM: &str = "compute-domain-daemon";

/// File with the ID of this boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Liveness limit of the supervisor. Each of its own waits is limited to five seconds.
const SUPERVISOR_LIMIT: Duration = Duration::from_secs(60);

/// Runs the daemon until a signal stops it, or checks a running one.
///
/// # Errors
/// Only errors that an administrator must fix: see [`StartError`].
pub(crate) async fn run(args: Args) -> Result<ExitCode, StartError> {
    let Args {
        command,
        node_name,
        pod,
        paths,
        imex,
        kube,
        http,
        log,
    } = args;
    if command == Some(Command::Check) {
        return check::run(&http.http_endpoint);
    }
    log.install()?;
    info!(
        version = env!("CARGO_PKG_VERSION"),
        node = node_name,
        ?pod,
        ?paths,
        "{PROGRAM} starts"
    );
    let boot_id = fs::read_to_string(BOOT_ID)
        .map_err(|err| StartError::new(&err, "the container needs /proc"))?;
    let shutdown = signals::shutdown()?;
    let (readiness, liveness) = (Readiness::default(), Liveness::default());
    // Start conditions: a later outage of the API server does not make the pod unready.
    let api_server =
        readiness.add_start_condition("api-server", "the API server has not responded yet");
    let watched = readiness.add_start_condition("clique-watch", "not watched yet");
    let ready = readiness.add_condition("imex", "nvidia-imex has not been started yet");
    let client = kube.client(&api_server).await?;
    let events = Events::new(client.clone(), PROGRAM, &pod.pod_name);
    let mut registry = Registry::default();
    let metrics = Metrics::register(&mut registry);
    events.register_metrics(&mut registry);
    if let Some(server) = http.bind().await? {
        let server = server.liveness(liveness.clone());
        tokio::spawn(server.serve(readiness, registry, shutdown.clone()));
    }
    let me = NodeIdentity {
        node: node_name,
        pod_uid: pod.pod_uid.clone(),
        address: pod.pod_ip,
    };
    let tls = imex.tls();
    let files = Files {
        dir: paths.imexd_dir,
        tls: tls.clone(),
        port: imex.imex_port,
        command_port: imex.imex_command_port,
    };
    let driver_root = DriverRoot::new(paths.container_driver_root);
    let (fabric, fabric_changed) = watch_fabric(&driver_root)
        .map_err(|err| StartError::new(&err, "raise the limits on threads"))?;
    let (answered, answers) = mpsc::unbounded_channel();
    let supervisor = Supervisor {
        core: Core::new(me.clone(), boot_id.trim().to_owned(), Instant::now()),
        me,
        namespace: pod.pod_namespace.clone(),
        watching: observe_watch(&client, &watched),
        query: Query::new(&driver_root, &files, imex.imex_query_timeout, answered),
        driver_root,
        fabric,
        fabric_changed,
        files,
        hosts_file: paths.hosts_file,
        answers,
        reports: Reports::new(events, &pod),
        metrics,
        ready,
        start_conditions: [api_server, watched],
        heartbeat: liveness.add("supervisor", SUPERVISOR_LIMIT),
        orphans: Orphans::adopt(),
        watch: None,
        imex: None,
        certificates: tls.map(Certificates::new),
        write_error: None,
        published_state: None,
    };
    supervisor.run(shutdown).await;
    info!("shutdown");
    Ok(ExitCode::SUCCESS)
}

/// Reads NVML on separate threads, so that a hanging call does not block the daemon.
fn watch_fabric(root: &DriverRoot) -> io::Result<(FabricWatch, Arc<Notify>)> {
    let changed = Arc::new(Notify::new());
    let notify = Arc::clone(&changed);
    let probe = NvmlProbe::new(root.clone());
    let watch = FabricWatch::spawn(probe, WatchConfig::default(), move |_| notify.notify_one())?;
    Ok((watch, changed))
}
