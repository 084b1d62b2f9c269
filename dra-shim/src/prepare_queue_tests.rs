//! Claims that come together, over a simulated disk.

use dra_checkpoint::BootId;
use durable_file::{SimDir, Step};
use imex_runtime::Liveness;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::claim_errors::prepare_failed;
use crate::test_objects::{EXCLUSIVE, mk_hardware, mk_status};

const PATIENCE: Duration = Duration::from_secs(60);

struct Bench {
    checkpoint: SimDir,
    claims: Arc<NodeClaims>,
    queue: PrepareQueue,
}

impl Bench {
    fn new() -> Self {
        let (checkpoint, cdi) = (SimDir::new(), SimDir::new());
        let boot = BootId::new("boot-1").unwrap();
        let dirs = (Arc::new(checkpoint.clone()), Arc::new(cdi));
        let (claims, _) =
            NodeClaims::start(dirs.0, dirs.1, boot, mk_hardware().major.ok(), EXCLUSIVE).unwrap();
        let heartbeat = Liveness::default().add("prepare-worker", PATIENCE);
        Self {
            checkpoint,
            claims: Arc::new(claims),
            queue: PrepareQueue::start(mk_hardware, heartbeat),
        }
    }

    fn ready(&self, n: u32) -> ReadyClaim {
        let status = mk_status(n);
        ReadyClaim {
            claims: Arc::clone(&self.claims),
            name: ClaimName {
                uid: format!("claim-{n}"),
                name: format!("name-{n}"),
                namespace: "default".to_owned(),
            },
            request: ChannelRequest::from_status(&status).unwrap(),
            status,
            domain: DomainState::Unassigned,
            node: "node-a".into(),
        }
    }

    /// Durable writes of the checkpoint: each ends in a rename.
    fn writes(&self) -> usize {
        let steps = self.checkpoint.steps();
        let renames = steps.iter().filter(|step| matches!(step, Step::Rename(..)));
        renames.count()
    }
}

fn mk_context() -> Context {
    let deadline = std::time::Instant::now() + PATIENCE;
    Context::new(deadline, CancellationToken::new())
}

#[tokio::test]
async fn claims_whose_facts_come_within_the_pause_share_two_writes() {
    let bench = Bench::new();
    let announced: Vec<_> = (0..16).map(|_| bench.queue.announce()).collect();
    let calls = announced.into_iter().zip(0..16).map(|(announced, n)| {
        let (queue, ready) = (bench.queue.clone(), bench.ready(n));
        tokio::spawn(async move {
            queue
                .prepare(&mk_context(), ready, announced, prepare_failed)
                .await
        })
    });
    for (n, call) in calls.collect::<Vec<_>>().into_iter().enumerate() {
        let prepared = call.await.unwrap().unwrap();
        assert_eq!(prepared.devices[0].device_name, format!("channel-{n}"));
    }
    assert_eq!(bench.writes(), 2);
    assert_eq!(bench.claims.prepared_channels(), 16);
}

#[tokio::test(start_paused = true)]
async fn a_claim_waits_for_a_slow_look_up_of_another_one_no_longer_than_the_pause() {
    let bench = Bench::new();
    let never_ready = bench.queue.announce();
    let announced = bench.queue.announce();
    let began = Instant::now();
    bench
        .queue
        .prepare(&mk_context(), bench.ready(0), announced, prepare_failed)
        .await
        .unwrap();
    assert!((GATHER..2 * GATHER).contains(&began.elapsed()));
    drop(never_ready);
    let began = Instant::now();
    let alone = bench.queue.announce();
    bench
        .queue
        .prepare(&mk_context(), bench.ready(1), alone, prepare_failed)
        .await
        .unwrap();
    assert_eq!(
        began.elapsed(),
        Duration::ZERO,
        "alone, it waits for nobody"
    );
}

#[tokio::test]
async fn a_claim_that_is_cancelled_before_its_batch_begins_is_not_prepared() {
    let bench = Bench::new();
    let context = mk_context();
    context.cancellation().cancel();
    let announced = bench.queue.announce();
    let answer = bench
        .queue
        .prepare(&context, bench.ready(0), announced, prepare_failed);
    assert_eq!(answer.await.unwrap_err().code(), "cancelled");
    assert_eq!(bench.writes(), 0);
}
