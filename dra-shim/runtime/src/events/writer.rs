//! The task that writes events.

use std::sync::Arc;
use std::time::Duration;

use dra_common::error_chain;
use k8s_openapi::api::events::v1::Event;
use kube::api::PostParams;
use kube::core::Status;
use kube::core::response::StatusDetails;
use kube::{Api, Client};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use super::recent::REPEAT_AFTER;
use super::report::{Report, Reporter};
use super::shared::Shared;
use crate::is_namespace_terminating;

/// The age after which an event is not retried. If it is still true, it is reported again.
const GIVE_UP_AFTER: Duration = Duration::from_secs(2 * 60);

/// The pause after the first failed attempt; each further failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Writes the events of both queues.
pub(super) struct Writer {
    client: Client,
    reporter: Reporter,
    shared: Arc<Shared>,
    /// When a lost event was last logged. At most one line every ten minutes: if one event is refused, most are.
    logged: Option<Instant>,
}

/// The kind of a failed attempt to write an event.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    /// An earlier attempt has written the event, and its response was lost.
    Written,
    /// The event's namespace is terminating or deleted.
    NamespaceGone,
    /// The API server is unavailable: a retry may succeed.
    Unavailable,
    /// The API server does not accept the event.
    Refused,
}

impl Writer {
    pub(super) fn new(client: Client, reporter: Reporter, shared: Arc<Shared>) -> Self {
        Self {
            client,
            reporter,
            shared,
            logged: None,
        }
    }

    /// Writes until both queues are closed and empty.
    pub(super) async fn run(
        mut self,
        mut warnings: Receiver<Report>,
        mut normals: Receiver<Report>,
    ) {
        loop {
            if warnings.is_empty() && normals.is_empty() {
                self.shared.end_flood();
            }
            let report = tokio::select! {
                biased;
                Some(report) = warnings.recv() => report,
                Some(report) = normals.recv() => report,
                else => return,
            };
            self.write(&report).await;
        }
    }

    /// Writes one event. Retries while the API server is unavailable, up to `GIVE_UP_AFTER`.
    async fn write(&mut self, report: &Report) {
        let events: Api<Event> = Api::namespaced(self.client.clone(), report.namespace());
        let event = report.to_event(&self.reporter);
        let mut pause = FIRST_PAUSE;
        while let Err(err) = events.create(&PostParams::default(), &event).await {
            match classify(&err) {
                Failure::Written => break,
                Failure::NamespaceGone => return,
                Failure::Unavailable if report.since.elapsed() < GIVE_UP_AFTER => {}
                Failure::Unavailable | Failure::Refused => return self.lose(report, &err),
            }
            sleep(jittered(pause)).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        debug!(reason = report.reason, note = report.note, "event written");
    }

    fn lose(&mut self, report: &Report, err: &kube::Error) {
        self.shared.forget(report.key);
        self.shared.count_dropped(report.type_);
        let (reason, object) = (&report.reason, report.object.name.as_deref());
        let error = error_chain(err);
        if self.logged.is_some_and(|at| at.elapsed() < REPEAT_AFTER) {
            debug!(
                reason,
                object, error, "cannot write the event; the event is dropped"
            );
        } else {
            warn!(
                reason,
                object, error, "cannot write the event; the event is dropped"
            );
            self.logged = Some(Instant::now());
        }
    }
}

fn classify(err: &kube::Error) -> Failure {
    match err {
        kube::Error::Api(status) if status.is_already_exists() => Failure::Written,
        kube::Error::Api(status) if is_namespace_gone(status) => Failure::NamespaceGone,
        // 401: the credentials are being renewed. Not 500, which a failing webhook causes: one namespace must
        // not block the others.
        kube::Error::Api(status) if matches!(status.code, 401 | 429 | 503 | 504) => {
            Failure::Unavailable
        }
        kube::Error::Api(_) | kube::Error::BuildRequest(_) => Failure::Refused,
        _ => Failure::Unavailable,
    }
}

fn is_namespace_gone(status: &Status) -> bool {
    let of_namespace = |details: &StatusDetails| details.kind == "namespaces";
    let missing = status.is_not_found() && status.details.as_ref().is_some_and(of_namespace);
    missing || is_namespace_terminating(status)
}

/// Half to one and a half times the pause, so that the nodes of a cluster do not retry together.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + fastrand::f64())
}
