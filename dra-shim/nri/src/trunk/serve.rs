//! Serves calls from the peer: each in a task, at most 16 at once, answered in time.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prost::Message as _;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::context::Context;
use crate::wire::{Code, ConnectionId, Message, MessageKind, Request, Response, Status};

/// Maximum of concurrent calls.
const MAX_CALLS: u32 = 16;
/// Upper limit of the peer's time-out, to avoid overflows; NRI's default is 2 s.
const MAX_TIMEOUT: Duration = Duration::from_secs(3600);

/// The encoded answer of a method, or an error.
pub(crate) type Answer = Result<Vec<u8>, Status>;

/// A call from the peer.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) service: String,
    pub(crate) method: String,
    pub(crate) payload: Vec<u8>,
}

/// A service that the peer calls.
pub(crate) trait Serve: Send + Sync + 'static {
    /// How long the peer waits, if the call does not say.
    fn timeout(&self) -> Duration;

    /// Serves the call. Dropped at its deadline.
    fn serve(&self, context: &Context, call: Call) -> impl Future<Output = Answer> + Send;

    /// The answer to a call that has missed its deadline.
    fn late(&self, method: &str, after: Duration) -> Answer;

    /// The answer to a call that has panicked.
    fn panicked(&self, method: &str) -> Answer;
}

/// The permits of calls, and the writer's queue. Cheap to clone.
#[derive(Clone)]
pub(super) struct Server {
    connection: ConnectionId,
    outbound: mpsc::Sender<Vec<u8>>,
    calls: Arc<Semaphore>,
    stop: CancellationToken,
}

/// The requests of one trunk, in order.
pub(super) struct Requests {
    server: Server,
    last_stream: u32,
}

// === impl Server ===

impl Server {
    pub(super) fn new(
        connection: ConnectionId,
        outbound: mpsc::Sender<Vec<u8>>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            connection,
            outbound,
            calls: Arc::new(Semaphore::new(MAX_CALLS as usize)),
            stop,
        }
    }

    pub(super) const fn connection(&self) -> ConnectionId {
        self.connection
    }

    pub(super) fn requests(&self) -> Requests {
        Requests {
            server: self.clone(),
            last_stream: 0,
        }
    }

    /// Takes all permits, after those of earlier requests are returned. Later requests get none.
    pub(super) async fn drain(&self) {
        if let Ok(all) = self.calls.acquire_many(MAX_CALLS).await {
            all.forget();
        }
    }

    /// Queues the answer; waits while the queue is full.
    async fn answer(&self, stream: u32, answer: Answer) {
        let message = |answer| Message {
            stream,
            kind: MessageKind::Response,
            payload: Response::new(answer).encode_to_vec(),
        };
        let encoded = message(answer).encode(self.connection).or_else(|error| {
            let text = format!("the response is too long: {} bytes", error.0);
            message(Err(Status::new(Code::Unknown, text))).encode(self.connection)
        });
        if let Ok(bytes) = encoded {
            let _ = self.outbound.send(bytes).await;
        }
    }
}

// === impl Requests ===

impl Requests {
    /// Takes the next message of the connection, once a permit is free.
    pub(super) async fn take<S: Serve>(&mut self, message: Message, service: &Arc<S>) {
        let arrived = Instant::now();
        if message.kind != MessageKind::Request {
            // Stream data, which NRI does not use, or a future kind.
            tracing::debug!(kind = ?message.kind, "ignored a message from the peer that is not a request");
            return;
        }
        let server = &self.server;
        let stream = message.stream;
        let Ok(permit) = Arc::clone(&server.calls).acquire_owned().await else {
            return;
        };
        let wrong = |text: &str| Err(Status::new(Code::InvalidArgument, text));
        if stream % 2 != 1 || stream <= self.last_stream {
            let text =
                "the stream number of a call must be odd and higher than that of the last call";
            return server.answer(stream, wrong(text)).await;
        }
        self.last_stream = stream;
        let Ok(request) = Request::decode(message.payload.as_slice()) else {
            return server.answer(stream, wrong("not a ttrpc request")).await;
        };
        let timeout = match u64::try_from(request.timeout_nano) {
            Ok(nanos) if nanos > 0 => Duration::from_nanos(nanos).min(MAX_TIMEOUT),
            _ => service.timeout(),
        };
        let call = Call {
            service: request.service,
            method: request.method,
            payload: request.payload,
        };
        let (server, service) = (server.clone(), Arc::clone(service));
        tokio::spawn(async move {
            let stop = server.stop.clone();
            tokio::select! {
                // Do not wait for the writer after the end of the trunk.
                () = stop.cancelled() => {}
                () = answer(&server, &service, stream, call, arrived, timeout) => {}
            }
            drop(permit);
        });
    }
}

async fn answer<S: Serve>(
    server: &Server,
    service: &Arc<S>,
    stream: u32,
    call: Call,
    arrived: Instant,
    timeout: Duration,
) {
    let method = call.method.clone();
    let deadline = arrived + answer_after(timeout);
    let cancellation = server.stop.child_token();
    // Cancels also if this future is dropped with the trunk.
    let cancels = cancellation.clone().drop_guard();
    let context = Context::new(deadline, cancellation);
    let work = Arc::clone(service);
    // A separate task: a panic ends only this one.
    let mut work = AbortOnDropHandle::new(tokio::spawn(
        async move { work.serve(&context, call).await },
    ));
    let done = tokio::time::timeout_at(deadline.into(), &mut work).await;
    let answer = match done {
        Ok(Ok(answer)) => answer,
        Ok(Err(_panic)) => {
            tracing::error!(method, "the plugin panicked; the runtime gets an error");
            service.panicked(&method)
        }
        Err(_) => {
            let after = answer_after(timeout);
            tracing::warn!(
                method,
                ?after,
                "the plugin did not respond in time; the NRI library responds in its place"
            );
            service.late(&method, after)
        }
    };
    drop(cancels);
    drop(work);
    server.answer(stream, answer).await;
}

/// How long a call may take with this time-out of the peer.
// req: NRI-4
fn answer_after(timeout: Duration) -> Duration {
    timeout.saturating_sub((timeout / 10).min(Duration::from_millis(200)))
}

#[cfg(test)]
mod tests {
    use super::*;

    // req: NRI-4
    #[test]
    fn an_answer_leaves_a_tenth_of_the_time_out_or_200_ms() {
        let after = |millis| answer_after(Duration::from_millis(millis)).as_millis();
        assert_eq!(after(2000), 1800);
        assert_eq!(after(10_000), 9800);
        assert_eq!(after(100), 90);
        assert_eq!(
            answer_after(Duration::from_nanos(1)),
            Duration::from_nanos(1)
        );
    }
}
