//! One attempt at one claim: read it, check it, call the driver, and contain whatever
//! goes wrong there.

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

/// Limit of one read of a claim: well over the answer of a slow API server, and several
/// fit into a call.
const GET_TIMEOUT: Duration = Duration::from_secs(10);

/// What every attempt needs.
pub(crate) struct Attempts<D, S> {
    pub(crate) driver_name: String,
    pub(crate) driver: D,
    pub(crate) source: S,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) permits: Permits,
}

/// Limits the attempts that run at once. Those of each method are limited apart: a
/// Prepare that hangs must not keep an Unprepare waiting.
pub(crate) struct Permits {
    prepare: Semaphore,
    unprepare: Semaphore,
}

/// How many attempts of each method run at once; the others wait for a few hundred
/// bytes each. A node has tens of pods that start at once, and reads of claims are
/// limited to as many.
const MAX_ATTEMPTS: usize = 32;

/// A claim that was read for the calls that were waiting until `answer_by`.
pub(crate) struct FetchedClaim {
    claim: Claim,
    answer_by: Instant,
}

/// Pauses between attempts: 250 ms, doubling to 3 s, with jitter so that nodes that
/// wait for the same thing do not retry in step.
pub(crate) fn delays() -> impl Iterator<Item = Duration> + Send {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(250))
        .with_max_delay(Duration::from_secs(3))
        .with_jitter()
        .without_max_times()
        .build()
}

impl<D: Driver, S: ClaimSource> Attempts<D, S> {
    /// `fetched` carries the claim from attempt to attempt. A call that joined since may
    /// know a newer version of it, so a later `answer_by` makes it stale.
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
        // The method is called when this is polled: it may panic before it returns a future.
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

    /// Waits for the attempt's turn, in the order of asking.
    ///
    /// # Errors
    /// It was cancelled, or did not come before `answer_by`.
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
            // Fails only for a closed semaphore, and nobody closes these.
            permit = permits.acquire() => permit.map_err(|_| ClaimError::shutting_down()),
            () = cancellation.cancelled() => Err(ClaimError::cancelled()),
            () = tokio::time::sleep_until(answer_by) => {
                Err(ClaimError::retry("too many other claims are under way").with_code("busy"))
            }
        }
    }
}

fn timed_out() -> ClaimError {
    ClaimError::retry("the API server did not answer in time").with_code("claim-read-timeout")
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

/// Turns a panic of the driver's code into the claim's error. State that it left
/// inconsistent is the driver's: a poisoned lock makes the next attempt panic again.
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
    tracing::error!(
        "the source of claims panicked; the panic message is in the log before this line"
    );
    internal_error().with_code("claim-source-panicked")
}

fn internal_error() -> ClaimError {
    ClaimError::permanent("the driver failed internally; its log has the details")
}
