//! The chain of one claim's operations, in paused time: results do not depend on the speed of
//! the machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, mpsc};

use super::*;
use crate::claim::Claim;
use crate::claim_source::GetClaimError;
use crate::context::Context;
use crate::driver::PreparedDevice;
use crate::observer::NoopObserver;

/// A driver that needs a permit for each step, logs its beginning and end, and fails the first
/// `failures` steps with `Retry`.
struct Gated {
    gate: Arc<Semaphore>,
    log: mpsc::UnboundedSender<String>,
    failures: AtomicUsize,
}

impl Gated {
    async fn step(&self, kind: &str) -> Result<(), ClaimError> {
        self.log.send(format!("{kind} begins")).unwrap();
        self.gate.acquire().await.unwrap().forget();
        self.log.send(format!("{kind} ends")).unwrap();
        let failed = |left: usize| left.checked_sub(1);
        match self
            .failures
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, failed)
        {
            Ok(_) => Err(ClaimError::retry("broken")),
            Err(_) => Ok(()),
        }
    }
}

impl Driver for Gated {
    async fn prepare(&self, _: &Context, _: &Claim) -> Result<Vec<PreparedDevice>, ClaimError> {
        self.step("prepare").await.map(|()| Vec::new())
    }

    async fn unprepare(&self, _: &Context, _: &ClaimRef) -> Result<(), ClaimError> {
        self.step("unprepare").await
    }
}

/// Every claim exists, is allocated, and has the UID `u`. Counts the reads.
struct AnyClaim(Arc<AtomicUsize>);

impl ClaimSource for AnyClaim {
    async fn get(&self, _: &str, _: &str) -> Result<String, GetClaimError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(r#"{"metadata": {"uid": "u"}, "status": {"allocation": {}}}"#.to_owned())
    }
}

struct Bench {
    operations: Operations<Gated, AnyClaim>,
    gate: Arc<Semaphore>,
    log: mpsc::UnboundedReceiver<String>,
    reads: Arc<AtomicUsize>,
}

fn mk_bench(failures: usize, permits: usize) -> Bench {
    let (sender, log) = mpsc::unbounded_channel();
    let (gate, reads) = (
        Arc::new(Semaphore::new(permits)),
        Arc::new(AtomicUsize::new(0)),
    );
    let failures = AtomicUsize::new(failures);
    let driver = Gated {
        gate: Arc::clone(&gate),
        log: sender,
        failures,
    };
    let operations = Operations::new(
        "d".into(),
        driver,
        AnyClaim(Arc::clone(&reads)),
        Arc::new(NoopObserver),
    );
    Bench {
        operations,
        gate,
        log,
        reads,
    }
}

impl Bench {
    /// Submits a call with a timeout of `seconds`, and returns a future of its outcome.
    fn call(&self, method: Method, seconds: u64) -> impl Future<Output = Outcome> + use<> {
        let answer_by = Instant::now() + Duration::from_secs(seconds);
        let claim = ClaimRef {
            namespace: "ns".into(),
            name: "c".into(),
            uid: "u".into(),
        };
        self.operations
            .submit(method, claim, answer_by)
            .outcome(answer_by)
    }

    async fn next(&mut self) -> String {
        self.log.recv().await.unwrap()
    }

    fn drained(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.log.try_recv().ok()).collect()
    }
}

// req: KUBELET-26
#[tokio::test(start_paused = true)]
async fn calls_that_join_share_one_step_and_its_outcome() {
    let mut bench = mk_bench(0, 1);
    let (one, two) = (
        bench.call(Method::Prepare, 43),
        bench.call(Method::Prepare, 43),
    );
    assert_eq!(tokio::join!(one, two), (Ok(vec![]), Ok(vec![])));
    assert_eq!(bench.drained(), ["prepare begins", "prepare ends"]);
    assert_eq!(bench.reads.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_joining_call_extends_the_retries_beyond_the_first_calls_deadline() {
    // Ten failures take more than 5 s and less than 43 s.
    let bench = mk_bench(10, 100);
    let (first, second) = (
        bench.call(Method::Prepare, 5),
        bench.call(Method::Prepare, 43),
    );
    let began = Instant::now();
    assert_eq!(first.await, Err(ClaimError::retry("broken")));
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    assert_eq!(second.await, Ok(vec![]));
}

#[tokio::test(start_paused = true)]
async fn retries_read_the_claim_once_until_another_call_joins() {
    let bench = mk_bench(3, 100);
    bench.call(Method::Prepare, 43).await.unwrap();
    assert_eq!(bench.reads.load(Ordering::SeqCst), 1);

    let mut bench = mk_bench(1, 0);
    let first = bench.call(Method::Prepare, 43);
    bench.next().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let second = bench.call(Method::Prepare, 43);
    bench.gate.add_permits(2);
    assert_eq!(tokio::join!(first, second), (Ok(vec![]), Ok(vec![])));
    assert_eq!(bench.reads.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn an_unprepare_follows_the_step_in_flight_without_a_retry_in_between() {
    let mut bench = mk_bench(1, 0);
    let prepare = bench.call(Method::Prepare, 43);
    bench.next().await;
    let unprepare = bench.call(Method::Unprepare, 43);
    bench.gate.add_permits(2);
    let (prepared, unprepared) = tokio::join!(prepare, unprepare);
    assert!(prepared.is_err());
    assert_eq!(unprepared, Ok(vec![]));
    assert_eq!(
        bench.drained(),
        ["prepare ends", "unprepare begins", "unprepare ends"]
    );
}

// req: KUBELET-27
#[tokio::test(start_paused = true)]
async fn a_prepare_that_succeeds_after_an_unprepare_arrived_is_an_error() {
    let mut bench = mk_bench(0, 0);
    let prepare = bench.call(Method::Prepare, 43);
    bench.next().await;
    let unprepare = bench.call(Method::Unprepare, 43);
    bench.gate.add_permits(2);
    let (prepared, unprepared) = tokio::join!(prepare, unprepare);
    assert_eq!(
        prepared,
        Err(ClaimError::retry("the claim is being unprepared").with_code("superseded"))
    );
    assert_eq!(unprepared, Ok(vec![]));
}

#[tokio::test(start_paused = true)]
async fn an_unprepare_behind_a_stuck_prepare_is_answered_and_its_retry_joins() {
    let mut bench = mk_bench(0, 0);
    let stuck = bench.call(Method::Prepare, 43);
    bench.next().await;
    let answer = bench.call(Method::Unprepare, 43).await.unwrap_err();
    assert!(answer.message().contains("the work continues"), "{answer}");
    stuck.await.unwrap_err();

    let again = bench.call(Method::Unprepare, 43);
    bench.gate.add_permits(2);
    assert_eq!(again.await, Ok(vec![]));
    assert_eq!(
        bench.drained(),
        ["prepare ends", "unprepare begins", "unprepare ends"]
    );
}

// req: KUBELET-28
#[tokio::test(start_paused = true)]
async fn a_prepare_during_an_unprepare_waits_and_is_a_new_operation() {
    let mut bench = mk_bench(0, 0);
    let unprepare = bench.call(Method::Unprepare, 43);
    bench.next().await;
    let prepare = bench.call(Method::Prepare, 43);
    bench.gate.add_permits(2);
    assert_eq!(tokio::join!(unprepare, prepare), (Ok(vec![]), Ok(vec![])));
    assert_eq!(
        bench.drained(),
        ["unprepare ends", "prepare begins", "prepare ends"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_expired_call_is_not_begun() {
    let mut bench = mk_bench(0, 0);
    let unprepare = bench.call(Method::Unprepare, 43);
    bench.next().await;
    let late = bench.call(Method::Prepare, 5).await.unwrap_err();
    assert!(late.message().contains("the work continues"), "{late}");
    bench.gate.add_permits(2);
    unprepare.await.unwrap();
    assert!(
        bench
            .operations
            .drain()
            .run(Duration::from_secs(9), Duration::ZERO)
            .await
    );
    assert_eq!(bench.drained(), ["unprepare ends"]);
}

#[tokio::test(start_paused = true)]
async fn the_last_attempt_begins_one_second_before_the_answer_is_due() {
    let bench = mk_bench(1000, 1000);
    let began = Instant::now();
    assert_eq!(
        bench.call(Method::Prepare, 43).await,
        Err(ClaimError::retry("broken"))
    );
    assert_eq!(began.elapsed(), Duration::from_secs(42));
}

#[tokio::test(start_paused = true)]
async fn finished_claims_leave_no_state() {
    let bench = mk_bench(1000, 1000);
    bench.call(Method::Prepare, 5).await.unwrap_err();
    assert!(
        bench
            .operations
            .drain()
            .run(Duration::from_secs(9), Duration::ZERO)
            .await
    );
    bench.call(Method::Unprepare, 5).await.unwrap_err();
    assert!(bench.operations.shared.chains.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_step_that_succeeds_at_the_end_of_a_drain_is_a_success() {
    let mut bench = mk_bench(0, 0);
    let prepare = bench.call(Method::Prepare, 43);
    bench.next().await;
    let drained = bench
        .operations
        .drain()
        .run(Duration::from_secs(5), Duration::from_secs(1));
    let gate = Arc::clone(&bench.gate);
    let late = async {
        tokio::time::sleep(Duration::from_millis(5500)).await;
        gate.add_permits(1);
    };
    let (prepared, drained, ()) = tokio::join!(prepare, drained, late);
    assert_eq!((prepared, drained), (Ok(vec![]), true));
}

#[tokio::test(start_paused = true)]
async fn a_drain_lets_steps_end_and_stops_the_retries() {
    let bench = mk_bench(1000, 1000);
    let prepare = bench.call(Method::Prepare, 43);
    let began = Instant::now();
    let drained = bench
        .operations
        .drain()
        .run(Duration::from_secs(5), Duration::from_secs(1));
    let (prepared, drained) = tokio::join!(prepare, drained);
    assert!(drained);
    assert_eq!(prepared, Err(ClaimError::shutting_down()));
    assert_eq!(began.elapsed(), Duration::from_secs(5));
}
