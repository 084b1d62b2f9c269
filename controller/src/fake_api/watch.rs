//! The bodies of watches.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{BoxStream, unfold};
use serde_json::{Value, json};
use tokio::sync::watch as changes;
use tokio::time::{Instant, sleep_until};

use super::FakeApi;
use super::answer::Answer;
use super::call::Call;
use super::faults::Fault;
use super::request::Request;
use super::verbs::{is_wanted, shown};

/// The lines of a watch: the body of its response.
pub(super) type Lines = BoxStream<'static, io::Result<Bytes>>;

/// An open watch.
struct Watch {
    api: FakeApi,
    call: Call,
    request: Request,
    /// All changes up to this revision were delivered or are in `queued`.
    revision: u64,
    queued: VecDeque<Value>,
    changes: changes::Receiver<u64>,
    /// When the server ends it.
    ends_at: Instant,
    /// A fault that has not happened yet.
    fault: Option<Fault>,
    ended: bool,
}

/// Opens a watch.
pub(super) fn open(api: &FakeApi, call: Call, request: Request, fault: Option<Fault>) -> Lines {
    let seconds = request.query("timeoutSeconds").parse().unwrap();
    let watch = Watch {
        api: api.clone(),
        call,
        revision: request.query("resourceVersion").parse().unwrap(),
        request,
        queued: VecDeque::new(),
        changes: api.shared.changes.subscribe(),
        ends_at: Instant::now() + Duration::from_secs(seconds),
        fault,
        ended: false,
    };
    api.state().watches.push(call);
    unfold(watch, |mut watch| async {
        let line = watch.next().await?;
        Some((line, watch))
    })
    .boxed()
}

// === impl Watch ===

impl Watch {
    /// `None` at the end.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        while !self.ended {
            if self.api.state().down {
                self.ended = true;
                return Some(Err(io::ErrorKind::ConnectionReset.into()));
            }
            if !self.queued.is_empty() {
                if let Some(fault) = self.fault.take() {
                    return Some(self.go_wrong(fault).await);
                }
                return self.queued.pop_front().map(|event| Ok(line(&event)));
            }
            if let Err(expired) = self.read() {
                self.ended = true;
                return Some(Ok(line(&error(&expired))));
            }
            if self.queued.is_empty() {
                tokio::select! {
                    _ = self.changes.changed() => {}
                    () = sleep_until(self.ends_at) => self.ended = true,
                }
            }
        }
        None
    }

    /// Reads the changes since.
    fn read(&mut self) -> Result<(), Answer> {
        let state = self.api.state();
        if state.store.is_forgotten(self.revision) {
            return Err(Answer::expired());
        }
        for change in state.store.since(self.revision) {
            if change.resource != self.request.resource {
                continue;
            }
            let wanted = |object: &&Value| is_wanted(&self.request, &change.namespace, object);
            let before = change.before.as_ref().filter(wanted);
            let after = change.after.as_ref().filter(wanted);
            let (kind, object) = match (before, after) {
                (None, None) => continue,
                (None, Some(after)) => ("ADDED", after),
                (Some(_), Some(after)) => ("MODIFIED", after),
                // With the version of its deletion, or of the change after which it is not selected any more.
                (Some(before), None) => ("DELETED", change.after.as_ref().unwrap_or(before)),
            };
            let mut object = shown(&self.request, object);
            object["metadata"]["resourceVersion"] = json!(change.revision.to_string());
            self.queued
                .push_back(json!({ "type": kind, "object": object }));
        }
        self.revision = state.store.revision();
        Ok(())
    }

    async fn go_wrong(&mut self, fault: Fault) -> io::Result<Bytes> {
        self.api.state().faults.fire();
        self.api.changed();
        self.ended = !matches!(fault, Fault::StreamMalformed | Fault::StreamGarbled);
        Ok(match fault {
            Fault::StreamHangs => std::future::pending().await,
            Fault::StreamBreaks => return Err(io::ErrorKind::ConnectionReset.into()),
            Fault::StreamExpires => line(&error(&Answer::expired())),
            Fault::StreamMalformed => {
                line(&json!({ "type": "MODIFIED", "object": { "metadata": { "labels": 7 } } }))
            }
            Fault::StreamGarbled => Bytes::from_static(b"{]\n"),
            _ => line(&error(&Answer::failure(
                500,
                "InternalError",
                "watch failed",
            ))),
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut state = self.api.state();
        let place = state.watches.iter().position(|open| *open == self.call);
        state.watches.swap_remove(place.unwrap());
        drop(state);
        self.api.changed();
    }
}

fn error(answer: &Answer) -> Value {
    json!({ "type": "ERROR", "object": answer.body })
}

fn line(event: &Value) -> Bytes {
    Bytes::from(format!("{event}\n"))
}
