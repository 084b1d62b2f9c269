//! One attempt at one claim: reads and checks the claim, calls the driver, and converts panics
//! to errors.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use dra_common::error_chain;
use futures_util::FutureExt as _;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::device_checks::check;
use crate::claim::Claim;
use crate::claim_source::{ClaimSource, GetClaimError};
use crate::context::Context;
use crate::driver::{Driver, Outcome};
use crate::error::ClaimError;
use crate::observer::{Method, Observer};
use crate::text::root_cause;
use dra_claim::ClaimRef;

/// Timeout of one read of a claim: much longer than a slow API server needs, and short enough
/// for several reads in a call.
const GET_TIMEOUT: Duration = Duration::from_secs(10);

/// The state that all attempts share.
pub(crate) struct Attempts<D, S> {
    pub(crate) driver_name: String,
    pub(crate) driver: D,
    pub(crate) source: S,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) permits: Permits,
}

/// Limits concurrent attempts, separately for each method: a Prepare that hangs must not block
/// an Unprepare.
pub(crate) struct Permits {
    prepare: Semaphore,
    unprepare: Semaphore,
}

/// Maximum number of concurrent attempts of each method. A waiting attempt takes a few hundred
/// bytes. Tens of pods may start on a node at once.
const MAX_ATTEMPTS: usize = 32;

/// A claim that was read for calls with this `answer_by`.
pub(crate) struct FetchedClaim {
    claim: Claim,
    answer_by: Instant,
}

/// Pauses between attempts: 250 ms, doubling to 3 s, with jitter so that nodes do not retry
/// in step.
pub(crate) fn delays() -> impl Iterator<Item = Duration> + Send {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(250))
        .with_max_delay(Duration::from_secs(3))
        .with_jitter()
        .without_max_times()
        .build()
}

impl<D: Driver, S: ClaimSource> Attempts<D, S> {
    /// Runs one attempt. `fetched` carries the claim from attempt to attempt. A later
    /// `answer_by` makes it stale: the call that joined may be for a newer version.
    pub(crate) async fn prepare(
        &self,
        id: &ClaimRef,
        fetched: &mut Option<FetchedClaim>,
        answer_by: Instant,
        cancellation: &CancellationToken,
    ) -> Outcome {
        let current = fetched
            .take()
            .filter(|fetched| fetched.answer_by == answer_by);
        let claim = if let Some(FetchedClaim { claim, .. }) = current {
            claim
        } else {
            self.fetch(id, answer_by, cancellation).await?
        };
        let context = Context::new(answer_by.into_std(), cancellation.clone());
        // The driver's method is called inside the future, because it may panic before it
        // returns one.
        let attempt = async { check(&claim, self.driver.prepare(&context, &claim).await?) };
        let outcome = self.attempt(Method::Prepare, id, attempt).await;
        *fetched = Some(FetchedClaim { claim, answer_by });
        outcome
    }

    // req: KUBELET-30
    pub(crate) async fn unprepare(
        &self,
        id: &ClaimRef,
        answer_by: Instant,
        cancellation: &CancellationToken,
    ) -> Outcome {
        let context = Context::new(answer_by.into_std(), cancellation.clone());
        let attempt = async { self.driver.unprepare(&context, id).await };
        self.attempt(Method::Unprepare, id, attempt)
            .await
            .map(|()| Vec::new())
    }

    async fn attempt<T>(
        &self,
        method: Method,
        id: &ClaimRef,
        attempt: impl Future<Output = Result<T, ClaimError>> + Send,
    ) -> Result<T, ClaimError> {
        self.observer.attempt_started(method, id);
        let began = Instant::now();
        let outcome = catch_panic(attempt, driver_panicked).await;
        let result = outcome.as_ref().map(|_| ());
        self.observer
            .attempt_finished(method, id, result, began.elapsed());
        outcome
    }

    async fn fetch(
        &self,
        id: &ClaimRef,
        answer_by: Instant,
        cancellation: &CancellationToken,
    ) -> Result<Claim, ClaimError> {
        let began = Instant::now();
        let claim = self.read(id, answer_by, cancellation).await;
        let result = claim.as_ref().map(|_| ());
        self.observer.claim_read(id, result, began.elapsed());
        claim
    }

    async fn read(
        &self,
        id: &ClaimRef,
        answer_by: Instant,
        cancellation: &CancellationToken,
    ) -> Result<Claim, ClaimError> {
        let until = answer_by.min(Instant::now() + GET_TIMEOUT);
        let get = async {
            let json = self.source.get(&id.namespace, &id.name).await;
            json.map_err(|error| get_error(&error))
        };
        let get = catch_panic(get, source_panicked);
        let json = tokio::select! {
            () = cancellation.cancelled() => return Err(ClaimError::cancelled()),
            json = tokio::time::timeout_at(until, get) => json.map_err(|_| timed_out())??,
        };
        Claim::parse(&json, id, &self.driver_name)
            .map_err(|error| ClaimError::permanent(error_chain(&error)).with_code(error.code()))
    }
}

// === impl Permits ===

impl Permits {
    pub(crate) const fn new() -> Self {
        Self {
            prepare: Semaphore::const_new(MAX_ATTEMPTS),
            unprepare: Semaphore::const_new(MAX_ATTEMPTS),
        }
    }

    /// Waits for a permit, in order of the requests.
    ///
    /// # Errors
    /// The attempt was cancelled, or got no permit before `answer_by`.
    pub(crate) async fn acquire(
        &self,
        method: Method,
        answer_by: Instant,
        cancellation: &CancellationToken,
    ) -> Result<SemaphorePermit<'_>, ClaimError> {
        let permits = match method {
            Method::Prepare => &self.prepare,
            Method::Unprepare => &self.unprepare,
        };
        tokio::select! {
            // Fails only for a closed semaphore, and these are never closed.
            permit = permits.acquire() => permit.map_err(|_| ClaimError::shutting_down()),
            () = cancellation.cancelled() => Err(ClaimError::cancelled()),
            () = tokio::time::sleep_until(answer_by) => {
                Err(ClaimError::retry("too many other claims are in progress").with_code("busy"))
            }
        }
    }
}

fn timed_out() -> ClaimError {
    ClaimError::retry("the API server did not respond in time").with_code("claim-read-timeout")
}

fn get_error(error: &GetClaimError) -> ClaimError {
    let claim_error = match error {
        GetClaimError::NotFound | GetClaimError::BadName { .. } => ClaimError::permanent(error),
        GetClaimError::Api(source) => {
            ClaimError::retry(format_args!("{error}: {}", root_cause(source)))
        }
        GetClaimError::Source(_) => ClaimError::retry(error_chain(error)),
    };
    claim_error.with_code(error.code())
}

/// Converts a panic of the driver's code to the claim's error. Inconsistent state after it is
/// the driver's problem: a poisoned lock makes the next attempt panic again.
// req: KUBELET-16
async fn catch_panic<T>(
    future: impl Future<Output = Result<T, ClaimError>> + Send,
    panicked: fn() -> ClaimError,
) -> Result<T, ClaimError> {
    AssertUnwindSafe(future)
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Err(panicked()))
}

pub(crate) fn driver_panicked() -> ClaimError {
    tracing::error!("the driver panicked; the panic message is in the log before this line");
    internal_error().with_code("driver-panicked")
}

fn source_panicked() -> ClaimError {
    tracing::error!("the ClaimSource panicked; the panic message is in the log before this line");
    internal_error().with_code("claim-source-panicked")
}

fn internal_error() -> ClaimError {
    ClaimError::permanent("the driver had an internal error; see its log for details")
}
