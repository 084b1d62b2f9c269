//! Hooks for metrics: what the library does, reported as it happens.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::ClaimError;
use crate::registration::Registration;
use dra_claim::ClaimRef;

/// Receives an event for everything that the library does: for metrics, and for tests
/// that count. Each method does nothing unless it is implemented.
///
/// Set with [`PluginBuilder::observer`](crate::PluginBuilder::observer), one for each
/// plugin.
///
/// # Guarantees of the library
///
/// * **Pairs.** Each `..._started` is followed by its `..._finished`, also for a call
///   that kubelet gives up on and for an attempt that panics. The one exception is a
///   runtime that is dropped.
/// * **Order.** The events of one claim come in the order in which things happened:
///   `claim_started`, `claim_read`, then `attempt_started` and `attempt_finished` for each attempt, then
///   `claim_finished`, all before the `call_finished` of a call that waited for it.
///   Events of different claims, of the publisher and of the health stream interleave.
/// * **Codes.** An error has a [`ClaimError::code`], which is a stable word and so fit
///   for a label.
/// * **Panics.** A panic is caught, the first one of a plugin is logged, and the library
///   goes on as if the method had returned.
///
/// # Obligations of the observer
///
/// Every method is called in the middle of the work, on a thread that runs tokio's
/// tasks, and concurrently with every other method and with itself: it returns at once,
/// counts in atomics, and takes no lock that is held across slow code.
pub trait Observer: Send + Sync + 'static {
    /// One of kubelet's calls came in; before any work for it begins.
    fn call_started(&self, method: Method) {
        let _ = method;
    }

    /// kubelet's call is over after `took`, answered or cancelled. Once for each
    /// `call_started`. The work that it began may still go on.
    fn call_finished(&self, method: Method, outcome: CallOutcome, took: Duration) {
        let _ = (method, outcome, took);
    }

    /// Work for a claim begins: an earlier operation of the claim is over, and nothing has
    /// been read or attempted yet. However many calls wait for it, this is told once.
    fn claim_started(&self, method: Method, claim: &ClaimRef) {
        let _ = (method, claim);
    }

    /// A claim was read from its [`ClaimSource`](crate::ClaimSource) and checked, for a
    /// Prepare; or could not be, in which case no attempt follows this read.
    fn claim_read(&self, claim: &ClaimRef, outcome: Result<(), &ClaimError>, took: Duration) {
        let _ = (claim, outcome, took);
    }

    /// The driver's method is about to be called: one attempt, of possibly several for
    /// the claim.
    fn attempt_started(&self, method: Method, claim: &ClaimRef) {
        let _ = (method, claim);
    }

    /// The driver's method returned after `took`, or panicked. Once for each
    /// `attempt_started`; it may come after
    /// [`Plugin::shutdown`](crate::Plugin::shutdown) has returned, as an attempt that
    /// ignores its cancellation runs to its end.
    fn attempt_finished(
        &self,
        method: Method,
        claim: &ClaimRef,
        outcome: Result<(), &ClaimError>,
        took: Duration,
    ) {
        let _ = (method, claim, outcome, took);
    }

    /// All attempts at a claim are over, `took` after the first call asked for it.
    /// Once for each `claim_started`, however many calls wait: they are all answered with
    /// `outcome`. A call whose deadline came earlier was answered without this event.
    fn claim_finished(
        &self,
        method: Method,
        claim: &ClaimRef,
        outcome: Result<(), &ClaimError>,
        took: Duration,
    ) {
        let _ = (method, claim, outcome, took);
    }

    /// A request of the `ResourceSlice` publisher ended, at most 16 at a time.
    /// `request` is `list`, `get-node`, `get-version`, `create`, `update` or `delete`;
    /// an error is one of the codes of
    /// [`Publication::Failing`](crate::Publication::Failing).
    fn slice_request(
        &self,
        request: &'static str,
        outcome: Result<(), &'static str>,
        took: Duration,
    ) {
        let _ = (request, outcome, took);
    }

    /// kubelet accepted or refused the registration, or the sockets were lost and new
    /// ones are being opened (`Pending`). `Registered` may follow `Registered`: kubelet
    /// does not announce the end of a registration, and registers again after its
    /// restart. Neither the `Pending` at the start nor the plugin's end is reported.
    fn registration_changed(&self, state: &Registration) {
        let _ = state;
    }

    /// kubelet opened (true) or lost (false) a health stream. Once each for every stream;
    /// several may be open, as while kubelet changes over to reopened sockets.
    fn health_stream_changed(&self, open: bool) {
        let _ = open;
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

/// How one of kubelet's calls ended. A call with more claims than the library takes is
/// answered as one of which all failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallOutcome {
    /// Every claim got an answer.
    Answered {
        /// How many claims the call had.
        claims: usize,
        /// How many of them were answered with an error.
        failed: usize,
    },
    /// The caller went away first: kubelet's deadline passed, or kubelet ended.
    Cancelled,
}

/// The observer of a plugin that has none.
pub(crate) struct NoopObserver;

/// Calls a driver's observer and catches its panics.
pub(crate) struct PanicGuard<O> {
    observer: O,
    has_panicked: AtomicBool,
}

// === impl Method ===

impl Method {
    /// `prepare` or `unprepare`, for the label of a metric.
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

// === impl CallOutcome ===

impl CallOutcome {
    /// `ok`, `failed` (at least one claim) or `cancelled`, for the label of a metric.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Answered { failed: 0, .. } => "ok",
            Self::Answered { .. } => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

// === impl NoopObserver ===

impl Observer for NoopObserver {}

// === impl PanicGuard ===

impl<O: Observer> PanicGuard<O> {
    pub(crate) const fn new(observer: O) -> Self {
        Self {
            observer,
            has_panicked: AtomicBool::new(false),
        }
    }

    fn notify(&self, event: &'static str, notify: impl FnOnce(&O)) {
        // A panic may leave the observer's own counters wrong; nothing here depends on them.
        let notified = catch_unwind(AssertUnwindSafe(|| notify(&self.observer)));
        if notified.is_err() && !self.has_panicked.swap(true, Ordering::Relaxed) {
            tracing::error!(
                event,
                "the observer panicked; further panics of it are not logged"
            );
        }
    }
}

/// Each method of the trait, forwarded through [`PanicGuard::notify`].
macro_rules! forward {
    ($($method:ident($($argument:ident: $type:ty),+);)+) => {
        impl<O: Observer> Observer for PanicGuard<O> {
            $(fn $method(&self, $($argument: $type),+) {
                self.notify(stringify!($method), |observer| observer.$method($($argument),+));
            })+
        }
    };
}

forward! {
    call_started(method: Method);
    call_finished(method: Method, outcome: CallOutcome, took: Duration);
    claim_started(method: Method, claim: &ClaimRef);
    claim_read(claim: &ClaimRef, outcome: Result<(), &ClaimError>, took: Duration);
    attempt_started(method: Method, claim: &ClaimRef);
    attempt_finished(method: Method, claim: &ClaimRef, outcome: Result<(), &ClaimError>, took: Duration);
    claim_finished(method: Method, claim: &ClaimRef, outcome: Result<(), &ClaimError>, took: Duration);
    slice_request(request: &'static str, outcome: Result<(), &'static str>, took: Duration);
    registration_changed(state: &Registration);
    health_stream_changed(open: bool);
}
