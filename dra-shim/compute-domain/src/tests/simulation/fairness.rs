//! API Priority and Fairness with the defaults of Kubernetes 1.36, for one flow. All nodes'
//! plugins are one flow: one service account, so one user of the flow schema
//! `service-accounts`, in the priority level `workload-low`. No seats are borrowed from other
//! levels. (`k8s.io/apiserver` v0.36.0: `apis/flowcontrol/bootstrap/default.go`,
//! `util/flowcontrol/request`, `util/flowcontrol/dropped_requests_tracker.go`,
//! `server/config.go`.)

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

/// 100 of 245 shares of the 400 + 200 concurrent requests of a server.
const SEATS: u32 = 245;

/// A flow's hand of the 128 queues. No other flow uses them here.
const HAND: usize = 6;

/// Maximum length of a queue.
const QUEUE_LENGTH: usize = 50;

/// Maximum wait in a queue: a quarter of the 60 s time limit of a request.
const LONGEST_WAIT: Duration = Duration::from_secs(60 / 4);

/// Maximum `Retry-After`, in seconds.
const MAX_RETRY_AFTER: u64 = 32;

/// Seats of a LIST: one for each 100 kB that it loads, up to 1 MB from the cache. This is for a
/// cluster of 500 `ComputeDomains` of 2 kB, in any namespaces.
pub(super) const LIST_SEATS: u32 = 10;

/// Clones share one server.
#[derive(Clone)]
pub(super) struct Fairness(Arc<Mutex<State>>);

struct State {
    free: u32,
    queues: [VecDeque<Waiting>; HAND],
    next_queue: usize,
    dropped: Dropped,
}

struct Waiting {
    seats: u32,
    /// Closed when the client has disconnected.
    admit: oneshot::Sender<Seats>,
}

/// Seats of a request that is being served. Freed on drop.
pub(super) struct Seats {
    count: u32,
    server: Fairness,
}

/// Refused requests, which determine the `Retry-After`.
struct Dropped {
    start: Instant,
    /// Refusals by second.
    history: VecDeque<(u64, u64)>,
    retry_after: u64,
    doubled_at: u64,
}

// === impl Fairness ===

impl Fairness {
    pub(super) fn new() -> Self {
        let queues = std::array::from_fn(|_| VecDeque::new());
        let dropped = Dropped {
            start: Instant::now(),
            history: VecDeque::new(),
            retry_after: 1,
            doubled_at: 0,
        };
        Self(Arc::new(Mutex::new(State {
            free: SEATS,
            queues,
            next_queue: 0,
            dropped,
        })))
    }

    /// Waits for seats.
    ///
    /// # Errors
    /// 429, with the seconds to wait before a retry.
    pub(super) async fn admit(&self, seats: u32) -> Result<Seats, u64> {
        let Some(admitted) = self.enqueue(seats) else {
            return Err(self.state().dropped.refuse());
        };
        match timeout(LONGEST_WAIT, admitted).await {
            Ok(Ok(seats)) => Ok(seats),
            _ => Err(self.state().dropped.refuse()),
        }
    }

    /// `None` if the shortest queue of the hand is full.
    fn enqueue(&self, seats: u32) -> Option<oneshot::Receiver<Seats>> {
        let (admit, admitted) = oneshot::channel();
        let mut state = self.state();
        for queue in &mut state.queues {
            queue.retain(|waiting| !waiting.admit.is_closed());
        }
        let queue = state.queues.iter_mut().min_by_key(|queue| queue.len())?;
        if queue.len() >= QUEUE_LENGTH {
            return None;
        }
        queue.push_back(Waiting { seats, admit });
        drop(state);
        self.dispatch();
        Some(admitted)
    }

    /// Admits requests from the queues in turn, while the next one fits.
    fn dispatch(&self) {
        loop {
            let waiting = {
                let mut state = self.state();
                let turn = state.next_queue;
                let in_turn = (turn..turn + HAND).map(|queue| queue % HAND);
                let Some(queue) = in_turn
                    .into_iter()
                    .find(|queue| !state.queues[*queue].is_empty())
                else {
                    return;
                };
                let free = state.free;
                let Some(waiting) = state.queues[queue].pop_front_if(|next| next.seats <= free)
                else {
                    return;
                };
                state.next_queue = queue + 1;
                state.free -= waiting.seats;
                waiting
            };
            let seats = Seats {
                count: waiting.seats,
                server: self.clone(),
            };
            // The client has disconnected: the seats are freed.
            let _ = waiting.admit.send(seats);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }
}

impl Drop for Seats {
    fn drop(&mut self) {
        self.server.state().free += self.count;
        self.server.dispatch();
    }
}

// === impl Dropped ===

impl Dropped {
    /// Counts a refusal, and returns its `Retry-After`. It doubles while there are at least
    /// three refusals for each of its seconds, and shrinks with less than one.
    fn refuse(&mut self) -> u64 {
        let now = self.start.elapsed().as_secs();
        if self.history.back().is_none_or(|(second, _)| *second < now) {
            let recent = self
                .history
                .iter()
                .filter(|(second, _)| now - second <= self.retry_after);
            let count: u64 = recent.map(|(_, count)| count).sum();
            if now - self.doubled_at >= self.retry_after && count >= 3 * self.retry_after {
                self.retry_after = (2 * self.retry_after).min(MAX_RETRY_AFTER);
                self.doubled_at = now;
            } else if count < self.retry_after && self.retry_after > 1 {
                self.retry_after -= 1;
            }
            self.history.push_back((now, 0));
        }
        if let Some((_, count)) = self.history.back_mut() {
            *count += 1;
        }
        self.retry_after
    }
}
