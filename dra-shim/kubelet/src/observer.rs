//! What happens inside the library, told as it happens: for metrics, and for tests
//! that want to know how often something was done.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::claim::ClaimRef;
use crate::driver::ClaimError;
use crate::registration::Registration;

/// Hears of everything that the library does. Each method does nothing unless it
/// is implemented.
///
/// # Guarantees of the library
///
/// * What begins also ends, whatever comes of it: a call that kubelet gives up on,
///   a step that panics. The one exception is a runtime that is dropped.
/// * An error that is counted has a [`ClaimError::code`], which is a stable word.
///
/// # What the observer owes
///
/// It is called in the middle of the work, from any thread and from several at
/// once: it does not block, and counts in atomics. A panic is the observer's own: it
/// is caught, the first one of a plugin is logged, and all goes on as if the method
/// had returned.
pub trait Observer: Send + Sync + 'static {
    /// kubelet's call came in.
    fn call_began(&self, method: Method) {
        let _ = method;
    }

    /// kubelet's call is over after `took`. The work that it began may go on.
    fn call_ended(&self, method: Method, end: CallEnd, took: Duration) {
        let _ = (method, end, took);
    }

    /// A claim was read from its [`ClaimSource`](crate::ClaimSource) and checked.
    fn claim_read(&self, claim: &ClaimRef, outcome: Result<(), &ClaimError>, took: Duration) {
        let _ = (claim, outcome, took);
    }

    /// The driver's method is about to be called: one attempt.
    fn step_began(&self, method: Method, claim: &ClaimRef) {
        let _ = (method, claim);
    }

    /// The driver's method returned after `took`, or panicked. It may come after
    /// [`Plugin::shutdown`](crate::Plugin::shutdown) has returned: a step that does
    /// not heed its cancellation runs to its end.
    fn step_ended(
        &self,
        method: Method,
        claim: &ClaimRef,
        outcome: Result<(), &ClaimError>,
        took: Duration,
    ) {
        let _ = (method, claim, outcome, took);
    }

    /// All attempts at a claim are over, `took` after the first call asked for it:
    /// the outcome that every call that still waits is answered with.
    fn claim_ended(
        &self,
        method: Method,
        claim: &ClaimRef,
        outcome: Result<(), &ClaimError>,
        took: Duration,
    ) {
        let _ = (method, claim, outcome, took);
    }

    /// A request of the publisher ended. `request` is `list`, `get-node`,
    /// `get-version`, `create`, `update` or `delete`; an error is one of the codes
    /// of [`Publication::Failing`](crate::Publication::Failing).
    fn slice_request(
        &self,
        request: &'static str,
        outcome: Result<(), &'static str>,
        took: Duration,
    ) {
        let _ = (request, outcome, took);
    }

    /// kubelet said how the registration stands, or the sockets were lost and new
    /// ones are being opened (`Pending`). The first `Pending` of a plugin and its end
    /// are not told; kubelet never says when a registration ends, and after its own
    /// restart it registers anew, so `Registered` may follow `Registered`.
    fn registration(&self, state: &Registration) {
        let _ = state;
    }

    /// kubelet opened (true) or lost (false) a health stream.
    fn health_stream(&self, open: bool) {
        let _ = open;
    }
}

/// Hears nothing: the library without an observer.
pub(crate) struct Deaf;

impl Observer for Deaf {}

/// A driver's observer, whose panics reach nobody's call.
pub(crate) struct Shielded<O> {
    observer: O,
    has_panicked: AtomicBool,
}

impl<O: Observer> Shielded<O> {
    pub(crate) const fn new(observer: O) -> Self {
        Self {
            observer,
            has_panicked: AtomicBool::new(false),
        }
    }

    fn tell(&self, event: &'static str, tell: impl FnOnce(&O)) {
        // What a panic leaves of its counters is the observer's own affair.
        let told = catch_unwind(AssertUnwindSafe(|| tell(&self.observer)));
        if told.is_err() && !self.has_panicked.swap(true, Ordering::Relaxed) {
            tracing::error!(
                event,
                "the observer panicked; further panics of it are not logged"
            );
        }
    }
}

impl<O: Observer> Observer for Shielded<O> {
    fn call_began(&self, method: Method) {
        self.tell("call_began", |it| it.call_began(method));
    }

    fn call_ended(&self, method: Method, end: CallEnd, took: Duration) {
        self.tell("call_ended", |it| it.call_ended(method, end, took));
    }

    fn claim_read(&self, claim: &ClaimRef, outcome: Result<(), &ClaimError>, took: Duration) {
        self.tell("claim_read", |it| it.claim_read(claim, outcome, took));
    }

    fn step_began(&self, method: Method, claim: &ClaimRef) {
        self.tell("step_began", |it| it.step_began(method, claim));
    }

    fn step_ended(
        &self,
        method: Method,
        claim: &ClaimRef,
        outcome: Result<(), &ClaimError>,
        took: Duration,
    ) {
        self.tell("step_ended", |it| {
            it.step_ended(method, claim, outcome, took);
        });
    }

    fn claim_ended(
        &self,
        method: Method,
        claim: &ClaimRef,
        outcome: Result<(), &ClaimError>,
        took: Duration,
    ) {
        self.tell("claim_ended", |it| {
            it.claim_ended(method, claim, outcome, took);
        });
    }

    fn slice_request(
        &self,
        request: &'static str,
        outcome: Result<(), &'static str>,
        took: Duration,
    ) {
        self.tell("slice_request", |it| {
            it.slice_request(request, outcome, took);
        });
    }

    fn registration(&self, state: &Registration) {
        self.tell("registration", |it| it.registration(state));
    }

    fn health_stream(&self, open: bool) {
        self.tell("health_stream", |it| it.health_stream(open));
    }
}

/// Which of kubelet's two calls, and so which of the driver's two methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// `NodePrepareResources`
    Prepare,
    /// `NodeUnprepareResources`
    Unprepare,
}

impl Method {
    /// `prepare` or `unprepare`, as a metric's label has it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Unprepare => "unprepare",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a call of kubelet's ended. It never fails as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallEnd {
    /// Every claim got an answer.
    Answered {
        /// How many claims the call had.
        claims: usize,
        /// How many of them were answered with an error.
        failed: usize,
    },
    /// The caller went away first: kubelet's deadline, or its end.
    Cancelled,
}

impl CallEnd {
    /// `ok`, `failed` (one claim at least) or `cancelled`, as a metric's label.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Answered { failed: 0, .. } => "ok",
            Self::Answered { .. } => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A call in flight. Dropped before it is answered, it counts as cancelled.
pub(crate) struct CallInFlight<'a> {
    observer: &'a dyn Observer,
    method: Method,
    began: Instant,
    end: CallEnd,
}

impl<'a> CallInFlight<'a> {
    pub(crate) fn begin(observer: &'a dyn Observer, method: Method) -> Self {
        observer.call_began(method);
        Self {
            observer,
            method,
            began: Instant::now(),
            end: CallEnd::Cancelled,
        }
    }

    pub(crate) fn answered(mut self, claims: usize, failed: usize) {
        self.end = CallEnd::Answered { claims, failed };
    }
}

impl Drop for CallInFlight<'_> {
    fn drop(&mut self) {
        self.observer
            .call_ended(self.method, self.end, self.began.elapsed());
    }
}
