//! One attempt at one claim: read it, check it, hand it to the driver, and let
//! nothing that goes wrong there reach another claim.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder};
use futures_util::FutureExt as _;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::answer::check;
use crate::call::Call;
use crate::claim::{Claim, ClaimRef};
use crate::driver::{ClaimError, Driver};
use crate::observer::{Method, Observer};
use crate::source::{ClaimSource, GetClaimError};
use crate::text::{chain, reason};
use crate::work::Outcome;

/// One read of a claim may take this long: well over a slow API server's answer,
/// and several fit into a call.
const GET_TIMEOUT: Duration = Duration::from_secs(10);

/// What every attempt needs.
pub(crate) struct Attempts<D, S> {
    pub(crate) driver_name: String,
    pub(crate) driver: D,
    pub(crate) source: S,
    pub(crate) observer: Arc<dyn Observer>,
}

/// A claim that was read for the calls that were waiting until `answer_by`.
pub(crate) struct Fetched {
    claim: Claim,
    answer_by: Instant,
}

/// Pauses between attempts: 250 ms, doubling to 3 s, plus up to 250 ms so that
/// nodes that wait for the same thing do not ask in step.
pub(crate) fn delays() -> impl Iterator<Item = Duration> + Send {
    ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(250))
        .with_max_delay(Duration::from_secs(3))
        .with_jitter()
        .without_max_times()
        .build()
}

impl<D: Driver, S: ClaimSource> Attempts<D, S> {
    /// `fetched` carries the claim from attempt to attempt. A call that joined in
    /// between may know a newer version, so its later `answer_by` makes it stale.
    pub(crate) async fn prepare(
        &self,
        id: &ClaimRef,
        fetched: &mut Option<Fetched>,
        answer_by: Instant,
        cancel: &CancellationToken,
    ) -> Outcome {
        let current = fetched
            .take()
            .filter(|fetched| fetched.answer_by == answer_by);
        let claim = match current {
            Some(Fetched { claim, .. }) => claim,
            None => self.fetch(id, answer_by, cancel).await?,
        };
        let call = Call::new(answer_by.into_std(), cancel.clone());
        // Called when it is polled: a method may panic before there is a future.
        let step = async {
            let devices = self.driver.prepare(&call, &claim).await?;
            check(&claim, devices)
        };
        let outcome = self.step(Method::Prepare, id, step).await;
        *fetched = Some(Fetched { claim, answer_by });
        outcome
    }

    pub(crate) async fn unprepare(
        &self,
        id: &ClaimRef,
        answer_by: Instant,
        cancel: &CancellationToken,
    ) -> Outcome {
        let call = Call::new(answer_by.into_std(), cancel.clone());
        let step = async { self.driver.unprepare(&call, id).await };
        self.step(Method::Unprepare, id, step)
            .await
            .map(|()| Vec::new())
    }

    async fn step<T>(
        &self,
        method: Method,
        id: &ClaimRef,
        step: impl Future<Output = Result<T, ClaimError>> + Send,
    ) -> Result<T, ClaimError> {
        self.observer.step_began(method, id);
        let began = Instant::now();
        let outcome = shielded(step, driver_panicked).await;
        let seen = outcome.as_ref().map(|_| ());
        self.observer.step_ended(method, id, seen, began.elapsed());
        outcome
    }

    async fn fetch(
        &self,
        id: &ClaimRef,
        answer_by: Instant,
        cancel: &CancellationToken,
    ) -> Result<Claim, ClaimError> {
        let began = Instant::now();
        let claim = self.read(id, answer_by, cancel).await;
        let seen = claim.as_ref().map(|_| ());
        self.observer.claim_read(id, seen, began.elapsed());
        claim
    }

    async fn read(
        &self,
        id: &ClaimRef,
        answer_by: Instant,
        cancel: &CancellationToken,
    ) -> Result<Claim, ClaimError> {
        let until = answer_by.min(Instant::now() + GET_TIMEOUT);
        let get = async {
            let json = self.source.get(&id.namespace, &id.name).await;
            json.map_err(|error| get_error(&error))
        };
        let get = shielded(get, source_panicked);
        let json = tokio::select! {
            () = cancel.cancelled() => return Err(ClaimError::cancelled()),
            json = tokio::time::timeout_at(until, get) => json.map_err(|_| unanswered())??,
        };
        Claim::parse(&json, id, &self.driver_name)
            .map_err(|error| ClaimError::permanent(chain(&error)).with_code(error.code()))
    }
}

fn unanswered() -> ClaimError {
    ClaimError::retry("the API server did not answer in time").with_code("claim-read-timeout")
}

fn get_error(error: &GetClaimError) -> ClaimError {
    let sentence = match error {
        GetClaimError::NotFound => ClaimError::permanent(error),
        GetClaimError::Api(source) => {
            ClaimError::retry(format_args!("{error}: {}", reason(source)))
        }
        GetClaimError::Source(_) => ClaimError::retry(chain(error)),
    };
    sentence.with_code(error.code())
}

/// Turns a panic of the driver's code into the claim's error. The driver's own state
/// is its own affair: a poisoned lock is reported again by the next attempt.
async fn shielded<T>(
    step: impl Future<Output = Result<T, ClaimError>> + Send,
    panicked: fn() -> ClaimError,
) -> Result<T, ClaimError> {
    AssertUnwindSafe(step)
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Err(panicked()))
}

pub(crate) fn driver_panicked() -> ClaimError {
    tracing::error!("the driver panicked; the panic message is in the log before this line");
    internally().with_code("driver-panicked")
}

fn source_panicked() -> ClaimError {
    tracing::error!(
        "the source of claims panicked; the panic message is in the log before this line"
    );
    internally().with_code("claim-source-panicked")
}

fn internally() -> ClaimError {
    ClaimError::permanent("the driver failed internally; its log has the details")
}
