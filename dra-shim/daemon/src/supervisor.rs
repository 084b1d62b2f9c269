//! Performs the core's actions and reports their results to it.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use compute_domain_api::driver_managed::{DaemonPhase, DaemonState};
use daemon_runtime::{Heartbeat, ReadinessCondition};
use kube::Client;
use nix::sys::signal::Signal;
use nvml_clique::{DriverRoot, FabricWatch};
use rustls::pki_types::UnixTime;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::certificates::{CertificateCheck, Certificates};
use crate::clique_watch::{CliqueWatch, ObservedClique};
use crate::core::Core;
use crate::core::action::Action;
use crate::core::facts::{Exit, Fabric, StartReason};
use crate::core::membership::{Membership, NodeIdentity, StartConfig};
use crate::files::Files;
use crate::hosts;
use crate::imex::Imex;
use crate::metrics::Metrics;
use crate::orphans::Orphans;
use crate::query::{Answered, Query};
use crate::reports::Reports;

/// How long `nvidia-imex` may take to exit when the daemon shuts down. The shutdown takes a second in all.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(800);

/// How often orphans are reaped, see [`Orphans`].
const ORPHANS_EVERY: Duration = Duration::from_secs(5);

/// How often the certificates are checked. kubelet needs up to a minute to update the files of a changed Secret.
const RENEWALS_EVERY: Duration = Duration::from_secs(5);

/// Runs the daemon: collects events for the core and performs its actions.
pub(crate) struct Supervisor {
    pub(crate) core: Core,
    pub(crate) me: NodeIdentity,
    pub(crate) namespace: String,
    /// The client for the watch. It sets the watch's readiness condition.
    pub(crate) watching: Client,
    pub(crate) driver_root: DriverRoot,
    pub(crate) fabric: FabricWatch,
    pub(crate) fabric_changed: Arc<Notify>,
    pub(crate) files: Files,
    pub(crate) hosts_file: PathBuf,
    pub(crate) query: Query,
    pub(crate) answers: UnboundedReceiver<Answered>,
    pub(crate) reports: Reports,
    pub(crate) metrics: Metrics,
    pub(crate) ready: ReadinessCondition,
    /// The API server's conditions, which must be met once before the pod is ready.
    pub(crate) start_conditions: [ReadinessCondition; 2],
    pub(crate) heartbeat: Heartbeat,
    pub(crate) orphans: Orphans,
    pub(crate) watch: Option<CliqueWatch>,
    pub(crate) imex: Option<Imex>,
    /// Set if the members connect by mutual TLS.
    pub(crate) certificates: Option<Certificates>,
    /// The error of the last write of the state, if it failed.
    pub(crate) write_error: Option<String>,
    /// The last logged state.
    pub(crate) published_state: Option<DaemonState>,
}

// === impl Supervisor ===

impl Supervisor {
    /// Runs until `shutdown`, on the main thread: `nvidia-imex` dies with that thread.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        let mut orphans = tokio::time::interval(ORPHANS_EVERY);
        let mut renewals = tokio::time::interval(RENEWALS_EVERY);
        loop {
            self.heartbeat.beat();
            tokio::select! {
                () = self.act() => {}
                () = shutdown.cancelled() => break,
            }
            let wake_at = self.core.wake_at();
            tokio::select! {
                () = shutdown.cancelled() => break,
                () = self.fabric_changed.notified() => self.read_fabric(),
                seen = next_seen(&mut self.watch) => self.seen(&seen),
                exit = next_exit(&mut self.imex) => self.exited(&exit).await,
                Some((run, answer)) = self.answers.recv() => {
                    self.metrics.answered(&answer);
                    let actions = self.core.answered(run, answer, Instant::now());
                    self.perform(actions).await;
                }
                _ = renewals.tick(), if self.certificates.is_some() => {
                    if self.check_certificates() {
                        info!("certificates renewed; nvidia-imex will reload them");
                        self.core.certificates_renewed();
                    }
                }
                _ = orphans.tick() => self.orphans.look(self.imex.as_ref().map(Imex::pid)),
                () = sleep_until(wake_at.into()) => {}
            }
        }
        self.end().await;
    }

    /// Performs actions until the core has none.
    async fn act(&mut self) {
        self.follow_clique();
        loop {
            let actions = self.core.decide(Instant::now());
            if actions.is_empty() {
                return;
            }
            self.perform(actions).await;
        }
    }

    /// Watches the object of the clique that NVML reports.
    fn follow_clique(&mut self) {
        let Some(clique) = self.core.clique() else {
            self.watch = None;
            if self.core.has_nothing_to_run() {
                // No request is sent to the API server, so these conditions would never be met.
                self.start_conditions
                    .iter()
                    .for_each(ReadinessCondition::set_met);
            }
            return;
        };
        if self
            .watch
            .as_ref()
            .is_none_or(|watch| watch.clique != clique)
        {
            info!(clique, "watching the members of this node's clique");
            let client = self.watching.clone();
            self.watch = Some(CliqueWatch::start(client, &self.namespace, clique));
        }
    }

    // req: DAEMON-1
    fn read_fabric(&mut self) {
        let fabric = self.fabric.latest().fabric;
        let reason = fabric.to_string();
        self.core.fabric(match fabric {
            nvml_clique::Fabric::Clique(clique) => Fabric::Clique(clique.id.to_string()),
            nvml_clique::Fabric::NoClique(_) => Fabric::NoClique(reason),
            _ => Fabric::Unknown(reason),
        });
    }

    fn seen(&mut self, seen: &ObservedClique) {
        let Some(watch) = &self.watch else { return };
        let clique = watch.clique.as_str();
        let membership = match seen {
            ObservedClique::Object(object) => Membership::read(clique, object, &self.me),
            ObservedClique::Absent => Err(format!(
                "ComputeDomainClique {clique} does not exist in namespace {}; the controller creates it",
                self.namespace
            )),
            ObservedClique::Unreadable(error) => Err(format!(
                "ComputeDomainClique {clique} cannot be read: {error}"
            )),
        };
        if let Ok(membership) = &membership {
            self.metrics.members(membership.peers.len() + 1);
        }
        self.core.membership(membership, Instant::now());
    }

    async fn exited(&mut self, exit: &Exit) {
        self.imex = None;
        let actions = self.core.exited(exit, Instant::now());
        if !actions.is_empty() {
            self.metrics.ended(exit);
        }
        self.perform(actions).await;
    }

    async fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::WriteNames {
                    addresses,
                    own_name,
                } => self.write_names(addresses, own_name).await,
                Action::Start {
                    start_config,
                    reason,
                } => self.start(&start_config, reason),
                Action::Signal => self.signal(),
                Action::Terminate => self.imex.iter().for_each(|it| it.signal(Signal::SIGTERM)),
                Action::Kill => self.imex.iter().for_each(Imex::kill),
                Action::QueryStatus { run } => self.query.ask(run),
                Action::ReadFabric => self.fabric.read_now(),
                Action::Publish { state, unready } => self.publish(state, unready.as_deref()),
                Action::Report(report) => self.reports.send(&report),
            }
        }
    }

    async fn write_names(&mut self, addresses: Vec<(IpAddr, String)>, own_name: String) {
        let own = (self.me.address, own_name);
        let written = hosts::write(&self.hosts_file, addresses, own).await;
        if written == Ok(true) {
            self.metrics.names_written();
        }
        self.core.names_written(written.map(drop), Instant::now());
    }

    fn start(&mut self, start_config: &StartConfig, reason: StartReason) {
        info!(
            clique = start_config.clique,
            index = start_config.index,
            length = start_config.length,
            reason = reason.label(),
            "starting nvidia-imex"
        );
        self.metrics.started(reason);
        if let Some(exit) = Exit::of_old_driver(&self.driver_root) {
            self.not_started(&exit);
            return;
        }
        let config = self.files.config();
        // nvidia-imex reads the current files when it starts: no signal is needed.
        self.check_certificates();
        let certified = self
            .certificates
            .as_ref()
            .map_or(Ok(()), Certificates::usable);
        let written = certified.and_then(|()| {
            let written = self.files.write_config(start_config);
            written.map_err(|error| format!("cannot write {}: {error}", config.display()))
        });
        let started = written.and_then(|()| Imex::start(&self.driver_root, &config));
        match started {
            Ok(imex) => self.imex = Some(imex),
            Err(reason) => self.not_started(&Exit::not_started(reason)),
        }
    }

    fn not_started(&mut self, exit: &Exit) {
        self.metrics.ended(exit);
        for action in self.core.exited(exit, Instant::now()) {
            if let Action::Report(report) = action {
                self.reports.send(&report);
            }
        }
    }

    /// Checks the certificates. Returns whether they were renewed.
    // req: MODE-41, MODE-42
    fn check_certificates(&mut self) -> bool {
        let Some(certificates) = &mut self.certificates else {
            return false;
        };
        let CertificateCheck { renewed, finding } = certificates.look(UnixTime::now());
        self.metrics.certificates(certificates.are_good());
        if let Some(finding) = finding {
            self.reports.certificates(&finding);
        }
        renewed
    }

    fn signal(&self) {
        info!("sending SIGUSR1 to nvidia-imex: new member addresses or certificates");
        self.metrics.signalled();
        self.imex.iter().for_each(|it| it.signal(Signal::SIGUSR1));
    }

    fn publish(&mut self, state: DaemonState, unready: Option<&str>) {
        match unready {
            None => self.ready.set_met(),
            Some(reason) => self.ready.set_unmet(reason),
        }
        self.metrics.state(&state);
        let error = self.files.write_state(&state).err();
        let error = error.map(|error| error.to_string());
        if error.is_some() {
            self.core.publish_failed(Instant::now());
        }
        if error != self.write_error {
            let path = self.files.state();
            if let Some(error) = &error {
                warn!(path = %path.display(), error, "cannot write the state file; retrying");
            } else {
                info!(path = %path.display(), "the state file was written again");
            }
            self.write_error = error;
        }
        let has_changed = |published_state: &DaemonState| {
            (
                published_state.phase,
                &published_state.clique,
                published_state.index,
            ) != (state.phase, &state.clique, state.index)
        };
        if self.published_state.as_ref().is_none_or(has_changed) {
            let DaemonState {
                clique,
                index,
                phase,
                reason,
                ..
            } = &state;
            info!(clique, index, ?phase, reason, "state changed");
            self.published_state = Some(state);
        }
    }

    /// Shuts down: publishes that no claim may be prepared, and lets `nvidia-imex` notify its peers and exit.
    // req: DAEMON-7
    async fn end(mut self) {
        if let Some(imex) = &self.imex {
            imex.signal(Signal::SIGTERM);
        }
        let (state, _) = self.core.state();
        let state = DaemonState {
            phase: DaemonPhase::Starting,
            reason: "this node's IMEX daemon has stopped".to_owned(),
            ..state
        };
        if let Err(error) = self.files.write_state(&state) {
            warn!(%error, "cannot write the state file");
        }
        let Some(mut imex) = self.imex.take() else {
            return;
        };
        tokio::select! {
            exit = imex.ended() => info!("nvidia-imex has exited: {}", exit.how),
            () = sleep(SHUTDOWN_TIMEOUT) => {
                warn!("nvidia-imex did not exit within 0.8 s after SIGTERM; killing it");
                imex.kill();
                // The kernel may need a moment. nvidia-imex dies with this process anyway.
                let _ = timeout(SHUTDOWN_TIMEOUT / 8, imex.ended()).await;
            }
        }
    }
}

async fn next_seen(watch: &mut Option<CliqueWatch>) -> ObservedClique {
    match watch {
        Some(watch) => watch.next().await,
        None => std::future::pending().await,
    }
}

async fn next_exit(imex: &mut Option<Imex>) -> Exit {
    match imex {
        Some(imex) => imex.ended().await,
        None => std::future::pending().await,
    }
}
