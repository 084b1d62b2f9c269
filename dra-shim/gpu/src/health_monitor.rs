//! Follows the health of GPUs: events from a process that waits for them, and the readings.
//!
//! The process that waits holds its GPUs. It lets go of a GPU that may need a reset: another process is started without
//! this GPU, and this one is ended when the other one waits. So no event is lost in between.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use daemon_runtime::{Heartbeat, Liveness};
use nvml_session::{
    DriverRoot, EventGpu, EventProcess, EventStop, Failure, GpuEvent, Registered, Report,
    SessionProgram,
};
use plugin_parts::READS_LIMIT;
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::health::{Health, HealthReport, HealthSettings, Millis, Place};
use crate::health_reading::{self, HealthReading};
use crate::health_store::{DriverLoad, Kept};
use crate::metrics::{GpuMetrics, HealthMetrics};
use crate::monitor::GpuMonitor;

/// First and last pause before the process is started again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// How long a process works until the next pause is the first one again.
const IS_STABLE: Duration = Duration::from_secs(60);

/// Pause until GPUs whose events are not received are tried again.
const TRY_ALL_EVERY: Duration = Duration::from_secs(5 * 60);

/// From this failure on, the GPUs count as unmonitored: a short gap is no reason to write the slice.
const UNMONITORED_FROM: u32 = 3;

/// Number of reports that may wait. The process waits if there are more, and the driver drops events then.
const WAITING_REPORTS: usize = 64;

/// How long a process is still read that is ended: until the next one waits, and a moment longer.
const LEAVES_WITHIN: (Duration, Duration) = (Duration::from_secs(2), Duration::from_millis(200));

/// How often the task shows that it lives.
const BEAT_EVERY: Duration = Duration::from_secs(10);

/// The task that follows the health of GPUs.
pub(crate) struct HealthMonitor {
    monitor: GpuMonitor,
    /// How the process is started, and the driver's root.
    program: SessionProgram,
    root: DriverRoot,
    data_dir: PathBuf,
    health: Health,
    /// What `health.json` has.
    kept: Kept,
    load: DriverLoad,
    /// The GPUs whose events are wanted, if nothing keeps us from it.
    wanted: Vec<EventGpu>,
    process: Option<Watched>,
    /// The process before, and when it is ended.
    leaving: Option<(Watched, Instant)>,
    /// When the process is started again.
    start_at: Option<Instant>,
    failures: u32,
    /// Why GPUs are not registered, until the process shows that it waits.
    unregistered: Option<BTreeMap<String, String>>,
    reports: watch::Sender<Option<Arc<HealthReport>>>,
    metrics: HealthMetrics,
    heartbeat: Heartbeat,
}

/// The process that waits for events, and the thread that reads it.
struct Watched {
    gpus: Vec<EventGpu>,
    stop: EventStop,
    received: mpsc::Receiver<Received>,
    began: Instant,
}

/// What the thread reports.
enum Received {
    Registered(Vec<Registered>),
    Report(Report),
    Ended(Failure),
}

// === impl HealthMonitor ===

impl HealthMonitor {
    pub(crate) fn new(
        monitor: &GpuMonitor,
        data_dir: &Path,
        settings: HealthSettings,
        metrics: &GpuMetrics,
        liveness: &Liveness,
    ) -> Self {
        let sources = monitor.sources();
        let this = || SessionProgram::this(sources.deadline);
        Self {
            program: sources.program.clone().unwrap_or_else(this),
            root: sources.driver_root.clone(),
            monitor: monitor.clone(),
            data_dir: data_dir.to_owned(),
            health: Health::new(settings, BTreeMap::new()),
            kept: Kept::default(),
            load: DriverLoad::default(),
            wanted: Vec::new(),
            process: None,
            leaving: None,
            start_at: None,
            failures: 0,
            unregistered: None,
            reports: watch::Sender::default(),
            metrics: metrics.health(),
            heartbeat: liveness.add("health-monitor", READS_LIMIT),
        }
    }

    /// The health of the GPUs, after the first reading.
    pub(crate) fn reports(&self) -> watch::Receiver<Option<Arc<HealthReport>>> {
        self.reports.subscribe()
    }

    /// Follows events and readings until `shutdown`.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
        self.load_kept().await;
        let mut readings = self.monitor.health();
        loop {
            self.heartbeat.beat();
            let wake = self.wake_at();
            tokio::select! {
                () = shutdown.cancelled() => return,
                Ok(()) = readings.changed() => {
                    let reading = readings.borrow_and_update().clone();
                    if let Some(reading) = reading {
                        self.read(&reading);
                        self.publish(health_reading::now()).await;
                    }
                }
                received = next_received(self.process.as_mut()) => self.handle(received).await,
                received = next_received(self.leaving.as_mut().map(|it| &mut it.0)) => {
                    if self.handle_leaving(received) {
                        self.publish(health_reading::now()).await;
                    }
                }
                () = sleep_until(wake) => self.publish(health_reading::now()).await,
            }
        }
    }

    // req: GPU-48
    async fn load_kept(&mut self) {
        let data_dir = self.data_dir.clone();
        if let Ok(kept) = spawn_blocking(move || Kept::read(&data_dir)).await {
            self.load = kept.load.clone();
            let settings = self.health.settings().clone();
            self.health = Health::new(settings, kept.gpus.clone());
            self.kept = kept;
        }
    }

    fn read(&mut self, reading: &HealthReading) {
        if self.load.has_ended(&reading.load) {
            info!("the driver was loaded again or the host booted: earlier XIDs do not count");
            self.health.forget();
        }
        self.load.update(&reading.load);
        self.health
            .reading(&reading.gpus, reading.is_complete, reading.begun_at);
        let gpus = reading.gpus.iter().filter_map(|gpu| {
            Some(EventGpu {
                index: gpu.index?,
                uuid: gpu.uuid.clone(),
            })
        });
        self.wanted = gpus.collect();
    }

    async fn handle(&mut self, received: Received) {
        let now = health_reading::now();
        if let Received::Report(_) = received
            && let Some(unregistered) = self.unregistered.take()
        {
            self.health.unmonitored(unregistered);
        }
        match received {
            Received::Report(report) => self.handle_report(&report, now),
            Received::Registered(registered) => self.handle_registered(&registered),
            Received::Ended(failure) => self.handle_end(&failure),
        }
        self.publish(now).await;
    }

    fn handle_report(&mut self, report: &Report, now: Millis) {
        match report {
            Report::NoEvent => {}
            Report::Event(event) => self.handle_event(event, now),
            Report::RecoveryAction { gpu, action } => {
                self.health.action(gpu, action, now);
                if self.health.may_change(now) {
                    self.monitor.read_now();
                }
            }
        }
    }

    /// Returns whether something may have changed.
    fn handle_leaving(&mut self, received: Received) -> bool {
        match received {
            Received::Report(report) => {
                self.handle_report(&report, health_reading::now());
                true
            }
            Received::Registered(_) => false,
            Received::Ended(_) => {
                self.leaving = None;
                false
            }
        }
    }

    /// Ends the process before when it is time, with what it has reported.
    // req: GPU-47
    fn end_leaving(&mut self) {
        let Some((mut process, at)) = self.leaving.take() else {
            return;
        };
        if at > Instant::now() {
            self.leaving = Some((process, at));
            return;
        }
        while let Ok(Received::Report(report)) = process.received.try_recv() {
            self.handle_report(&report, health_reading::now());
        }
    }

    fn handle_event(&mut self, event: &GpuEvent, now: Millis) {
        match event.event_type {
            GpuEvent::XID => {
                let place = Place {
                    gpu_instance: event.gpu_instance,
                    compute_instance: event.compute_instance,
                };
                self.metrics.count_xid(event.data);
                self.health.xid(&event.gpu, place, event.data, now);
            }
            // The layout of MIG devices or the state of the GPU has changed.
            _ => self.monitor.read_now(),
        }
    }

    fn handle_registered(&mut self, registered: &[Registered]) {
        if let Some((_, at)) = &mut self.leaving {
            *at = (*at).min(Instant::now() + LEAVES_WITHIN.1);
        }
        let failed: BTreeMap<_, _> = registered
            .iter()
            .filter_map(|it| Some((it.gpu.clone(), it.failure.as_ref()?.to_string())))
            .collect();
        for (gpu, reason) in &failed {
            warn!(gpu, reason, "XIDs of this GPU are not received");
        }
        if !failed.is_empty() {
            self.start_at = Some(Instant::now() + TRY_ALL_EVERY);
        }
        if self.failures < UNMONITORED_FROM {
            self.health.unmonitored(failed);
        } else {
            self.unregistered = Some(failed);
        }
        // Events may have been missed since the last reading.
        self.monitor.read_now();
    }

    // req: GPU-49
    fn handle_end(&mut self, failure: &Failure) {
        let Some(process) = self.process.take() else {
            return;
        };
        if process.began.elapsed() >= IS_STABLE {
            self.failures = 0;
        }
        self.failures += 1;
        self.metrics.count_monitor_failure();
        let (first, last) = PAUSES;
        let pause = first * 2_u32.saturating_pow(self.failures - 1).min(64);
        let pause = pause.min(last);
        warn!(
            %failure,
            "the process that waits for XIDs has ended; the next one is started in {} s",
            pause.as_secs()
        );
        self.start_at = Some(Instant::now() + pause);
        if self.failures >= UNMONITORED_FROM {
            let gpus = process.gpus.iter();
            let gpus = gpus.map(|it| (it.uuid.clone(), failure.to_string()));
            self.health.unmonitored(gpus.collect());
        }
        // A GPU may be lost, and events may have been missed.
        self.monitor.read_now();
    }

    /// The GPUs that the process may hold now.
    // req: GPU-47
    fn may_hold(&self) -> Vec<EventGpu> {
        let gpus = self.wanted.iter();
        let gpus = gpus.filter(|gpu| !self.health.wants_reset(&gpu.uuid));
        gpus.cloned().collect()
    }

    /// Starts the process if it does not run with the right GPUs, and ends it if it holds a wrong one.
    fn start_if_due(&mut self) {
        let is_due = self.start_at.is_some_and(|it| it <= Instant::now());
        if is_due {
            self.start_at = None;
        }
        let gpus = self.may_hold();
        let is_right = match &self.process {
            Some(process) => process.gpus == gpus && !is_due,
            None => gpus.is_empty() || self.start_at.is_some(),
        };
        if is_right {
            return;
        }
        // If one leaves already, this one has not registered its GPUs yet. Dropping it ends it.
        if let Some(process) = self.process.take()
            && self.leaving.is_none()
        {
            self.leaving = Some((process, Instant::now() + LEAVES_WITHIN.0));
        }
        self.start_at = None;
        if !gpus.is_empty() {
            self.process = Some(Watched::start(&self.program, &self.root, gpus));
        }
    }

    fn wake_at(&self) -> Instant {
        let mut at = Instant::now() + BEAT_EVERY;
        if let Some(start_at) = self.start_at {
            at = at.min(start_at);
        }
        if let Some((_, end_at)) = &self.leaving {
            at = at.min(*end_at);
        }
        let now = health_reading::now();
        if let Some(next) = self.health.next_change(now) {
            let after = next.saturating_sub(now);
            at = at.min(Instant::now() + Duration::from_millis(after));
        }
        at
    }

    /// Keeps what a later process needs, then reports what follows from it.
    async fn publish(&mut self, now: Millis) {
        self.end_leaving();
        self.health.expire(now);
        self.start_if_due();
        self.monitor.read_often(self.health.may_change(now));
        self.keep().await;
        let report = self.health.report(now);
        self.reports.send_if_modified(|before| {
            let is_new = before.as_deref() != Some(&report);
            *before = Some(Arc::new(report));
            is_new
        });
    }

    // req: GPU-48
    async fn keep(&mut self) {
        let is_same = *self.health.kept() == self.kept.gpus
            && (self.kept.gpus.is_empty() || self.load == self.kept.load);
        if is_same {
            return;
        }
        let kept = Kept {
            load: self.load.clone(),
            gpus: self.health.kept().clone(),
        };
        let (data_dir, written) = (self.data_dir.clone(), kept.clone());
        match spawn_blocking(move || written.write(&data_dir)).await {
            Ok(Ok(())) => self.kept = kept,
            Ok(Err(reason)) => warn!(
                reason,
                "health.json cannot be written; a restart of the plugin forgets XIDs"
            ),
            Err(_) => {} // the tokio runtime is shutting down
        }
    }
}

/// What the process reports next; never if there is none.
async fn next_received(process: Option<&mut Watched>) -> Received {
    let Some(process) = process else {
        return std::future::pending().await;
    };
    let ended = || Received::Ended(Failure::new("the thread that reads events", "has panicked"));
    process.received.recv().await.unwrap_or_else(ended)
}

// === impl Watched ===

impl Watched {
    fn start(program: &SessionProgram, root: &DriverRoot, gpus: Vec<EventGpu>) -> Self {
        let (sender, received) = mpsc::channel(WAITING_REPORTS);
        let stop = EventStop::default();
        let (program, root) = (program.clone(), root.clone());
        let (of, stopped) = (gpus.clone(), stop.clone());
        // The kernel kills the process when this thread ends.
        thread::spawn(move || {
            let failure = receive(&program, &root, &of, &stopped, &sender);
            // Without a receiver, the process was ended on purpose.
            let _ = sender.blocking_send(Received::Ended(failure));
        });
        Self {
            gpus,
            stop,
            received,
            began: Instant::now(),
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.stop.stop();
    }
}

/// Sends what the process reports, until it ends.
fn receive(
    program: &SessionProgram,
    root: &DriverRoot,
    gpus: &[EventGpu],
    stop: &EventStop,
    sender: &mpsc::Sender<Received>,
) -> Failure {
    let (mut process, registered) = match EventProcess::open(program, root, gpus, stop) {
        Ok(opened) => opened,
        Err(failure) => return failure,
    };
    let mut next = Received::Registered(registered);
    loop {
        if sender.blocking_send(next).is_err() {
            return Failure::new("the NVML process", "was stopped");
        }
        next = match process.receive_report() {
            Ok(report) => Received::Report(report),
            Err(failure) => return failure,
        };
    }
}

#[cfg(test)]
#[path = "health_monitor_tests.rs"]
mod tests;
