//! The claims in progress, for debugging a pod that does not start: SIGUSR2 writes them to a file.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use daemon_runtime::StartError;
use dra_claim::Consumer;
use dra_kubelet::{ClaimError, ClaimRef, Method};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use crate::references::claim_reference;

/// The file to which the Go driver writes its stacks on SIGUSR2.
const DUMP_FILE: &str = "/tmp/goroutine-stacks.dump";

/// The file's mode, as in the Go driver.
const DUMP_MODE: u32 = 0o666;

/// The current step of a claim. Drivers add their own as constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    text: &'static str,
    /// Reported instead of the last error.
    reason: Option<&'static str>,
}

/// The claims in progress. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct InFlight(Arc<Mutex<HashMap<(String, Method), Work>>>);

#[derive(Debug)]
struct Work {
    claim: ClaimRef,
    since: Instant,
    step: Step,
    step_since: Instant,
    attempts: u32,
    /// The pod, once the claim is read, if the claim is reserved for only one.
    pod: Option<ObjectReference>,
    last_error: Option<ClaimError>,
    /// The task that reports a long Prepare; aborted when the work ends.
    report: Option<AbortOnDropHandle<()>>,
}

// === impl Step ===

impl Step {
    const READING_CLAIM: Self = Self::new("reading the claim from the API server");
    const READING_CHECKPOINT: Self = Self::new("reading the checkpoint");
    /// A Prepare that has all its facts.
    pub const WRITING_RECORD_AND_SPEC: Self = Self::new("writing the claim's record and CDI spec");
    const REMOVING_RECORD_AND_SPEC: Self = Self::new("removing the claim's CDI spec and record");
    const WAITING_TO_RETRY: Self = Self::new("waiting to retry");

    /// A step with this text, such as `reading the checkpoint`.
    pub const fn new(text: &'static str) -> Self {
        Self { text, reason: None }
    }

    /// What a long Prepare waits for during this step, as `code: message`. Without it, the last error is reported,
    /// which is from an earlier step.
    #[must_use]
    pub const fn with_reason(self, reason: &'static str) -> Self {
        Self {
            reason: Some(reason),
            ..self
        }
    }
}

// === impl InFlight ===

impl InFlight {
    /// Adds a claim, and returns the time from which on it is in progress.
    pub(crate) fn started(&self, method: Method, claim: &ClaimRef) -> Instant {
        let now = Instant::now();
        let work = Work {
            claim: claim.clone(),
            since: now,
            step: match method {
                Method::Prepare => Step::READING_CLAIM,
                Method::Unprepare => Step::REMOVING_RECORD_AND_SPEC,
            },
            step_since: now,
            attempts: 0,
            pod: None,
            last_error: None,
            report: None,
        };
        self.lock().insert((claim.uid.clone(), method), work);
        now
    }

    /// Attaches `task`, which reports the Prepare if it takes long.
    pub(crate) fn reported_by(&self, claim: &ClaimRef, task: AbortOnDropHandle<()>) {
        self.change(Method::Prepare, claim, |work| work.report = Some(task));
    }

    /// Returns whether the attempt is a retry.
    pub(crate) fn attempt_started(&self, method: Method, claim: &ClaimRef) -> bool {
        let mut is_retry = false;
        self.change(method, claim, |work| {
            is_retry = work.attempts > 0;
            work.attempts += 1;
            work.set_step(match method {
                Method::Prepare => Step::READING_CHECKPOINT,
                Method::Unprepare => Step::REMOVING_RECORD_AND_SPEC,
            });
        });
        is_retry
    }

    /// Notes a failed attempt, or a failed read of the claim before it. A retry may follow.
    pub(crate) fn failed(&self, method: Method, claim: &ClaimRef, error: &ClaimError) {
        self.change(method, claim, |work| {
            work.last_error = Some(error.clone());
            work.set_step(Step::WAITING_TO_RETRY);
        });
    }

    /// Notes for which pod the claim of a Prepare is reserved.
    pub fn reserved_for(&self, claim: &ClaimRef, consumers: &[Consumer]) {
        // Of a group, the pods on this node are not known here.
        if let [consumer] = consumers
            && let Some(uid) = consumer.pod_uid()
        {
            let pod = ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                namespace: Some(claim.namespace.clone()),
                name: Some(consumer.name().to_owned()),
                uid: Some(uid.to_owned()),
                ..ObjectReference::default()
            };
            self.change(Method::Prepare, claim, |work| work.pod = Some(pod));
        }
    }

    /// Notes what a running attempt at a Prepare waits for.
    pub fn waits(&self, claim: &ClaimRef, reason: &ClaimError) {
        self.change(Method::Prepare, claim, |work| {
            work.last_error = Some(reason.clone());
        });
    }

    /// What the Prepare that began at `since` waits for, and the object of the event about that: the pod if known,
    /// else the claim. `None` if it has ended.
    pub(crate) fn waiting(
        &self,
        claim: &ClaimRef,
        since: Instant,
    ) -> Option<(ObjectReference, String)> {
        let claims = self.lock();
        let work = claims.get(&(claim.uid.clone(), Method::Prepare))?;
        if work.since != since {
            return None;
        }
        let object = work.pod.clone();
        let reason = match (work.step.reason, &work.last_error) {
            (Some(reason), _) => reason.to_owned(),
            (None, Some(error)) => format!("{}: {}", error.code(), error.message()),
            (None, None) => work.step.text.to_owned(),
        };
        Some((object.unwrap_or_else(|| claim_reference(claim)), reason))
    }

    /// Sets the step of a Prepare.
    pub fn step(&self, claim: &ClaimRef, step: Step) {
        self.change(Method::Prepare, claim, |work| work.set_step(step));
    }

    pub(crate) fn finished(&self, method: Method, claim: &ClaimRef) {
        self.lock().remove(&(claim.uid.clone(), method));
    }

    /// One line for each claim, the oldest work first.
    fn dump(&self) -> String {
        let claims = self.lock();
        let mut all: Vec<_> = claims.iter().collect();
        all.sort_by_key(|(_, work)| work.since);
        let mut text = format!(
            "{:.0}: {} claims in progress\n",
            Timestamp::now(),
            all.len()
        );
        for ((_, method), work) in all {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{method} {work}");
        }
        text
    }

    fn change(&self, method: Method, claim: &ClaimRef, change: impl FnOnce(&mut Work)) {
        if let Some(work) = self.lock().get_mut(&(claim.uid.clone(), method)) {
            change(work);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(String, Method), Work>> {
        // No code that can panic leaves a change half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Work ===

impl Work {
    fn set_step(&mut self, step: Step) {
        self.step = step;
        self.step_since = Instant::now();
    }
}

impl std::fmt::Display for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = |since: Instant| since.elapsed().as_secs_f64();
        write!(
            f,
            "{} for {:.1} s: {} for {:.1} s",
            self.claim,
            seconds(self.since),
            self.step.text,
            seconds(self.step_since),
        )?;
        if self.attempts > 0 {
            write!(f, "; attempt {}", self.attempts)?;
        }
        if let Some(error) = &self.last_error {
            write!(f, "; last error: {}", error.message())?;
        }
        Ok(())
    }
}

// === SIGUSR2 ===

/// Writes the claims in progress to `/tmp/goroutine-stacks.dump`, as the Go driver does, at each SIGUSR2, until `shutdown`.
///
/// # Errors
/// If the process is at its limit of threads or open files.
pub fn dump_on_signal(claims: InFlight, shutdown: CancellationToken) -> Result<(), StartError> {
    let mut signals = signal(SignalKind::user_defined2())
        .map_err(|err| StartError::new(&err, "raise the limits on threads and open files"))?;
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                received = signals.recv() => if received.is_none() { return },
            }
            let text = claims.dump();
            let written = tokio::task::spawn_blocking(move || write(Path::new(DUMP_FILE), &text));
            match written.await {
                Ok(Ok(())) => info!(
                    file = DUMP_FILE,
                    "SIGUSR2: wrote the list of claims in progress"
                ),
                Ok(Err(error)) => {
                    warn!(file = DUMP_FILE, %error, "SIGUSR2: cannot write the list of claims in progress");
                }
                Err(_) => return, // the tokio runtime is shutting down
            }
        }
    });
    Ok(())
}

/// Writes by a rename: readers see a whole dump, and a link at `path` is replaced, not followed.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or_else(|| Path::new("/"));
    let temporary = directory.join(format!(".goroutine-stacks.{}", std::process::id()));
    // Left by an interrupted dump.
    let _ = fs::remove_file(&temporary);
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&temporary)
        .and_then(|mut file| io::Write::write_all(&mut file, text.as_bytes()))?;
    fs::set_permissions(&temporary, fs::Permissions::from_mode(DUMP_MODE))?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn claim(uid: &str) -> ClaimRef {
        ClaimRef {
            namespace: "ns".to_owned(),
            name: format!("claim-{uid}"),
            uid: uid.to_owned(),
        }
    }

    fn lines(in_flight: &InFlight) -> Vec<String> {
        in_flight
            .dump()
            .lines()
            .skip(1)
            .map(str::to_owned)
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_dump_has_each_claims_step_times_and_last_error() {
        let in_flight = InFlight::default();
        let (a, b) = (claim("a"), claim("b"));
        in_flight.started(Method::Prepare, &a);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(!in_flight.attempt_started(Method::Prepare, &a));
        in_flight.step(&a, Step::WRITING_RECORD_AND_SPEC);
        let error = ClaimError::retry("the API server is away");
        in_flight.failed(Method::Prepare, &a, &error);
        in_flight.started(Method::Unprepare, &b);
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!(
            lines(&in_flight),
            [
                "prepare ns/claim-a:a for 2.5 s: waiting to retry for 0.5 s; attempt 1; last error: the API server is away",
                "unprepare ns/claim-b:b for 0.5 s: removing the claim's CDI spec and record for 0.5 s",
            ]
        );
        in_flight.finished(Method::Prepare, &a);
        in_flight.finished(Method::Unprepare, &b);
        assert!(lines(&in_flight).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_with_a_reason_reports_that_and_no_earlier_error() {
        let (in_flight, claim) = (InFlight::default(), claim("a"));
        let since = in_flight.started(Method::Prepare, &claim);
        let reason = || in_flight.waiting(&claim, since).unwrap().1;
        assert_eq!(reason(), "reading the claim from the API server");
        let error = ClaimError::retry("not ready").with_code("imex-daemon-starting");
        in_flight.waits(&claim, &error);
        assert_eq!(reason(), "imex-daemon-starting: not ready");
        let step = Step::new("checking").with_reason("timeout: no answer");
        in_flight.step(&claim, step);
        assert_eq!(reason(), "timeout: no answer");
    }

    #[test]
    fn a_dump_replaces_the_last_one_and_is_readable_by_all() {
        let dir = tempfile::tempdir().unwrap();
        let (file, elsewhere) = (dir.path().join("dump"), dir.path().join("elsewhere"));
        fs::write(&elsewhere, "precious").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
        write(&file, "first").unwrap();
        write(&file, "second").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "second");
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "precious");
        let mode = fs::symlink_metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, DUMP_MODE);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
