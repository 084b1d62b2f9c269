//! Hooks for metrics.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::ClaimError;
use crate::registration::Registration;
use dra_claim::ClaimRef;

/// Receives the library's events, for metrics and for tests. The default methods do nothing.
///
/// [`PluginBuilder::observer`](crate::PluginBuilder::observer) sets the observer of a plugin.
///
/// # Guarantees of the library
///
/// * **Pairs.** Each `..._started` is followed by its `..._finished`, also if kubelet cancels
///   the call or the attempt panics. The only exception is a dropped runtime.
/// * **Order.** The events of one claim come in order:
///   `claim_started`, `claim_read`, then `attempt_started` and `attempt_finished` for each attempt, then
///   `claim_finished`, all before the `call_finished` of a call that waited for it.
///   Events of different claims, of the publisher and of the health stream interleave.
/// * **Codes.** An error's [`ClaimError::code`] is stable and can be a metric label.
/// * **Panics.** The library catches a panic of the observer and continues as if the method
///   had returned. It logs the first panic of a plugin's observer.
///
/// # Obligations of the observer
///
/// Every method is called synchronously on a tokio worker thread, and concurrently with every
/// method including itself. It must return at once, count in atomics, and take no lock that is
/// held across slow code.
pub trait Observer: Send + Sync + 'static {
    /// A call of kubelet arrived; no work for it has begun.
    fn call_started(&self, method: Method) {
        let _ = method;
    }

    /// A call of kubelet ended after `took`, answered or cancelled. Once for each
    /// `call_started`. The operations that it began may still run.
    fn call_finished(&self, method: Method, outcome: CallOutcome, took: Duration) {
        let _ = (method, outcome, took);
    }

    /// An operation on a claim begins: the previous operation on the claim has ended, and
    /// nothing has been read or attempted yet. Reported once, even if several calls wait.
    fn claim_started(&self, method: Method, claim: &ClaimRef) {
        let _ = (method, claim);
    }

    /// A claim was read from its [`ClaimSource`](crate::ClaimSource) and checked, for a
    /// Prepare. After an error no attempt follows this read.
    fn claim_read(&self, claim: &ClaimRef, outcome: Result<(), &ClaimError>, took: Duration) {
        let _ = (claim, outcome, took);
    }

    /// An attempt begins: the driver's method is about to be called. A claim may need
    /// several attempts.
    fn attempt_started(&self, method: Method, claim: &ClaimRef) {
        let _ = (method, claim);
    }

    /// An attempt ended: the driver's method returned or panicked, after `took`. Once for
    /// each `attempt_started`. An attempt that ignores its cancellation may end after
    /// [`Plugin::shutdown`](crate::Plugin::shutdown) has returned.
    fn attempt_finished(
        &self,
        method: Method,
        claim: &ClaimRef,
        outcome: Result<(), &ClaimError>,
        took: Duration,
    ) {
        let _ = (method, claim, outcome, took);
    }

    /// An operation on a claim ended, `took` after its first call. Once for each
    /// `claim_started`. All waiting calls are answered with `outcome`; calls with an earlier
    /// deadline have already been answered.
    fn claim_finished(
        &self,
        method: Method,
        claim: &ClaimRef,
        outcome: Result<(), &ClaimError>,
        took: Duration,
    ) {
        let _ = (method, claim, outcome, took);
    }

    /// A request of the `ResourceSlice` publisher ended; at most 16 run at a time.
    /// `request` is `list`, `get-node`, `get-version`, `create`, `update` or `delete`.
    /// An error is a code of [`Publication::Failing`](crate::Publication::Failing).
    fn slice_request(
        &self,
        request: &'static str,
        outcome: Result<(), &'static str>,
        took: Duration,
    ) {
        let _ = (request, outcome, took);
    }

    /// kubelet accepted or refused the registration, or the sockets were lost and are being
    /// reopened (`Pending`). `Registered` may follow `Registered`: kubelet does not announce
    /// the end of a registration, and registers again after its restart. The `Pending` at
    /// the start and the plugin's end are not reported.
    fn registration_changed(&self, state: &Registration) {
        let _ = state;
    }

    /// A health stream of kubelet was opened (true) or ended (false). Once each for every
    /// stream. Several may be open, for example while kubelet switches to reopened sockets.
    fn health_stream_changed(&self, open: bool) {
        let _ = open;
    }
}

/// One of kubelet's two calls, and the driver's method of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// `NodePrepareResources`
    Prepare,
    /// `NodeUnprepareResources`
    Unprepare,
}

/// The result of one of kubelet's calls. A call with too many claims counts as answered,
/// with all claims failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallOutcome {
    /// Every claim was answered.
    Answered {
        /// The number of claims in the call.
        claims: usize,
        /// The number of claims answered with an error.
        failed: usize,
    },
    /// The call was cut off before its answer: kubelet's deadline passed, or kubelet ended.
    Cancelled,
}

/// The default observer, which does nothing.
pub(crate) struct NoopObserver;

/// Calls a driver's observer and catches its panics.
pub(crate) struct PanicGuard<O> {
    observer: O,
    has_panicked: AtomicBool,
}

// === impl Method ===

impl Method {
    /// The metric label: `prepare` or `unprepare`.
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
    /// The metric label: `ok`, `failed` (at least one claim) or `cancelled`.
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
        // A panic may leave the observer's own counters wrong; the library does not use them.
        let notified = catch_unwind(AssertUnwindSafe(|| notify(&self.observer)));
        if notified.is_err() && !self.has_panicked.swap(true, Ordering::Relaxed) {
            tracing::error!(
                event,
                "the observer panicked; its further panics are not logged"
            );
        }
    }
}

/// Forwards each method of the trait through [`PanicGuard::notify`].
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
