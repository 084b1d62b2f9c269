//! Claims on their way into the checkpoint: those that arrive together are prepared
//! together, in two durable writes.
//!
//! ```text
//! a claim whose facts are known ──► queue ──► worker: takes all that wait, and those
//!            ▲                                  │     that are about to, for GATHER
//!            └────────── its own answer ────────┘
//! ```
//!
//! While one batch is written, the next one gathers. A claim that comes alone waits
//! for nobody.

use std::sync::Arc;
use std::time::Duration;

use compute_domain_node::{
    ChannelRequest, DomainState, Hardware, Moment, NodeClaims, PrepareError, PrepareInput, Prepared,
};
use dra_checkpoint::{ClaimName, ClaimStatus};
use dra_kubelet::{ClaimError, Context};
use imex_runtime::Heartbeat;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::spawn_blocking;
use tokio::time::Instant;

/// How long a claim waits for others whose facts are being looked up: about what the
/// two durable writes cost that it would otherwise make them wait for.
const GATHER: Duration = Duration::from_millis(5);

/// Where claims wait. Cheap to clone; the worker ends with the last clone.
#[derive(Clone)]
pub(crate) struct PrepareQueue {
    queue: mpsc::UnboundedSender<Waiting>,
    lookups: Arc<watch::Sender<usize>>,
}

/// A claim with the facts that its caller has looked up.
pub(crate) struct ReadyClaim {
    pub(crate) claims: Arc<NodeClaims>,
    pub(crate) name: ClaimName,
    pub(crate) status: ClaimStatus,
    pub(crate) request: ChannelRequest,
    pub(crate) domain: DomainState,
    /// The name of this node.
    pub(crate) node: Arc<str>,
}

/// Counts a claim whose facts are being looked up for as long as it lives.
pub(crate) struct Lookup(Arc<watch::Sender<usize>>);

struct Waiting {
    claim: ReadyClaim,
    context: Context,
    answer: oneshot::Sender<Result<Prepared, PrepareError>>,
}

struct Worker {
    queue: mpsc::UnboundedReceiver<Waiting>,
    lookups: watch::Receiver<usize>,
    hardware: Arc<dyn Fn() -> Hardware + Send + Sync>,
    heartbeat: Heartbeat,
}

// === impl PrepareQueue ===

impl PrepareQueue {
    /// Starts the worker, which ends with the last clone of the queue. `hardware` is
    /// called once for each batch, where blocking is allowed.
    pub(crate) fn start(
        hardware: impl Fn() -> Hardware + Send + Sync + 'static,
        heartbeat: Heartbeat,
    ) -> Self {
        let (queue, waiting) = mpsc::unbounded_channel();
        let lookups = Arc::new(watch::Sender::new(0));
        let worker = Worker {
            queue: waiting,
            lookups: lookups.subscribe(),
            hardware: Arc::new(hardware),
            heartbeat,
        };
        tokio::spawn(worker.run());
        Self { queue, lookups }
    }

    /// Announces a claim that may come to [`prepare`](Self::prepare) soon.
    pub(crate) fn announce(&self) -> Lookup {
        self.lookups.send_modify(|lookups| *lookups += 1);
        Lookup(Arc::clone(&self.lookups))
    }

    /// Prepares the claim together with those that wait, too. A claim that is
    /// cancelled before its batch begins is not prepared. `refused` converts the claim's
    /// own error.
    pub(crate) async fn prepare(
        &self,
        context: &Context,
        claim: ReadyClaim,
        announced: Lookup,
        refused: impl FnOnce(&PrepareError) -> ClaimError,
    ) -> Result<Prepared, ClaimError> {
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting {
            claim,
            context: context.clone(),
            answer,
        };
        // A failure shows in the answer, too.
        let _ = self.queue.send(waiting);
        drop(announced);
        match answered.await {
            Ok(answer) => answer.map_err(|error| refused(&error)),
            Err(_) if context.cancellation().is_cancelled() => {
                Err(ClaimError::retry("the claim is being unprepared").with_code("cancelled"))
            }
            Err(_) => Err(ClaimError::retry(
                "the plugin failed internally; its log has the details",
            )
            .with_code("panic")),
        }
    }
}

// === impl Lookup ===

impl Drop for Lookup {
    fn drop(&mut self) {
        self.0
            .send_modify(|lookups| *lookups = lookups.saturating_sub(1));
    }
}

// === impl Worker ===

impl Worker {
    async fn run(mut self) {
        self.heartbeat.idle();
        while let Some(first) = self.queue.recv().await {
            self.heartbeat.beat();
            let batch = self.gather(first).await;
            let hardware = Arc::clone(&self.hardware);
            // A panic drops the senders of the answers, and is logged by the hook.
            let _ = spawn_blocking(move || prepare(batch, &*hardware)).await;
            self.heartbeat.idle();
        }
    }

    async fn gather(&mut self, first: Waiting) -> Vec<Waiting> {
        let until = Instant::now() + GATHER;
        let mut coming = first.context.claims_on_the_way();
        let mut batch = vec![first];
        loop {
            let more_come = *coming.borrow_and_update() + *self.lookups.borrow_and_update() > 0;
            // After the counters: whoever left them is in the queue.
            while let Ok(waiting) = self.queue.try_recv() {
                batch.push(waiting);
            }
            if !more_come {
                return batch;
            }
            tokio::select! {
                // A counter whose sender is gone does not change any more.
                Ok(()) = coming.changed() => {}
                Ok(()) = self.lookups.changed() => {}
                () = tokio::time::sleep_until(until) => return batch,
            }
        }
    }
}

/// On a thread that may block.
fn prepare(mut batch: Vec<Waiting>, hardware: &dyn Fn() -> Hardware) {
    batch.retain(|waiting| !waiting.context.cancellation().is_cancelled());
    let Some(claims) = batch.first().map(|first| Arc::clone(&first.claim.claims)) else {
        return;
    };
    let (hardware, now) = (hardware(), Moment::now());
    let inputs: Vec<_> = batch
        .iter()
        .map(|Waiting { claim, .. }| PrepareInput {
            claim: &claim.name,
            status: &claim.status,
            request: &claim.request,
            domain: claim.domain,
            node: &claim.node,
            hardware: &hardware,
            now,
        })
        .collect();
    let answers = claims.prepare_all(&inputs);
    drop(inputs);
    for (waiting, answer) in batch.into_iter().zip(answers) {
        // Fails if nobody waits any more.
        let _ = waiting.answer.send(answer);
    }
}

#[cfg(test)]
#[path = "prepare_queue_tests.rs"]
mod tests;
