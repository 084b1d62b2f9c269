//! Makes calls to the peer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prost::Message as _;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::wire::{ConnectionId, Message, MessageError, MessageKind, Request, Response, Status};

/// Calls to the peer. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Calls {
    connection: ConnectionId,
    outbound: mpsc::Sender<Vec<u8>>,
    open: Arc<Mutex<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    /// The last used stream; each is used once.
    last: u32,
    ended: bool,
    waiting: HashMap<u32, oneshot::Sender<Vec<u8>>>,
}

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error("the connection was lost")]
    Closed,
    #[error("no response within {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    #[error("{}", .0.message)]
    Refused(Status),
    #[error("the request is too long: {} bytes", .0.0)]
    TooLong(MessageError),
    #[error("the response cannot be decoded")]
    Decode(#[source] prost::DecodeError),
}

/// Removes the call when dropped, however it ends.
struct Waiting<'a> {
    calls: &'a Calls,
    stream: u32,
}

// === impl Calls ===

impl Calls {
    pub(super) fn new(connection: ConnectionId, outbound: mpsc::Sender<Vec<u8>>) -> Self {
        Self {
            connection,
            outbound,
            open: Arc::default(),
        }
    }

    /// Makes a call, and waits for its answer. Cancel-safe.
    pub(crate) async fn call<A: prost::Message + Default>(
        &self,
        service: &str,
        method: &str,
        request: &impl prost::Message,
        limit: Duration,
    ) -> Result<A, CallError> {
        self.call_patiently(service, method, request, limit, Duration::ZERO)
            .await
    }

    /// Like [`Calls::call`], but waits `patience` longer than `limit`. The peer only gets `limit`.
    pub(crate) async fn call_patiently<A: prost::Message + Default>(
        &self,
        service: &str,
        method: &str,
        request: &impl prost::Message,
        limit: Duration,
        patience: Duration,
    ) -> Result<A, CallError> {
        let request = Request {
            service: service.to_owned(),
            method: method.to_owned(),
            payload: request.encode_to_vec(),
            timeout_nano: i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX),
        };
        let answer = timeout(limit + patience, self.send(request.encode_to_vec()));
        let answer = answer.await.map_err(|_| CallError::TimedOut(limit))??;
        let response = Response::decode(answer.as_slice()).map_err(CallError::Decode)?;
        let payload = response.into_answer().map_err(CallError::Refused)?;
        A::decode(payload.as_slice()).map_err(CallError::Decode)
    }

    async fn send(&self, payload: Vec<u8>) -> Result<Vec<u8>, CallError> {
        let place = self
            .outbound
            .reserve()
            .await
            .map_err(|_| CallError::Closed)?;
        let (answered, answer) = oneshot::channel();
        let waiting = {
            // Numbered and queued under one lock: peers refuse a stream below the last one.
            let mut open = self.open();
            let stream = if open.last == 0 {
                Some(1)
            } else {
                open.last.checked_add(2)
            };
            let stream = stream.filter(|_| !open.ended).ok_or(CallError::Closed)?;
            let message = Message {
                stream,
                kind: MessageKind::Request,
                payload,
            };
            let message = message
                .encode(self.connection)
                .map_err(CallError::TooLong)?;
            place.send(message);
            open.last = stream;
            open.waiting.insert(stream, answered);
            Waiting {
                calls: self,
                stream,
            }
        };
        let answer = answer.await.map_err(|_| CallError::Closed);
        drop(waiting);
        answer
    }

    /// Takes a message on the connection of the calls. A message without a waiting call is
    /// dropped: the call may have timed out.
    pub(super) fn answered(&self, message: Message) {
        let waiting = match message.kind {
            MessageKind::Response => self.open().waiting.remove(&message.stream),
            _ => None,
        };
        if let Some(waiting) = waiting {
            let _ = waiting.send(message.payload);
            return;
        }
        tracing::debug!(
            stream = message.stream,
            kind = ?message.kind,
            "dropped a message from the peer, because no call is waiting for it"
        );
    }

    /// Ends all calls, because the trunk has ended.
    pub(super) fn end(&self) {
        let mut open = self.open();
        open.ended = true;
        open.waiting.clear();
    }

    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        // No code panics while holding the lock.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.calls.open().waiting.remove(&self.stream);
    }
}
