//! One HTTP/2 connection over a unix socket, with any `:authority` that a URI can
//! hold. A gRPC library's own channel would reconnect behind our back; kubelet's
//! connections are seen to come and go.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::body::Body;

/// Carries the calls of one connection; what the generated clients are made of.
#[derive(Clone)]
pub(super) struct Wire {
    sender: SendRequest<Body>,
    /// Gives every request its scheme and authority.
    pub(super) origin: Uri,
}

/// Keeps the connection open; dropped, it is cut.
pub(super) struct Connection {
    ended: CancellationToken,
    _cut: DropGuard,
}

impl Connection {
    /// Ends with the connection, whoever ended it.
    pub(super) async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

/// The origin with this authority, or `None` where no URI can hold it: the rule by
/// which servers that parse it as one refuse it.
pub(super) fn origin(authority: &str) -> Option<Uri> {
    Uri::builder()
        .scheme("http")
        .authority(authority)
        .path_and_query("/")
        .build()
        .ok()
}

pub(super) async fn connect(socket: &Path, origin: Uri) -> io::Result<(Wire, Connection)> {
    let stream = UnixStream::connect(socket).await?;
    let cut = CancellationToken::new();
    let tasks = Tasks(cut.clone());
    let (sender, connection) = handshake(tasks, TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    let ended = CancellationToken::new();
    let (cutting, ending) = (cut.clone(), ended.clone().drop_guard());
    tokio::spawn(async move {
        if let Some(Err(error)) = cutting.run_until_cancelled_owned(connection).await {
            tracing::debug!(%error, "the connection broke");
        }
        drop(ending);
    });
    let connection = Connection {
        ended,
        _cut: cut.drop_guard(),
    };
    Ok((Wire { sender, origin }, connection))
}

/// Runs the connection's tasks until it is cut: a killed kubelet says no goodbye.
#[derive(Clone)]
struct Tasks(CancellationToken);

impl<F> hyper::rt::Executor<F> for Tasks
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, task: F) {
        tokio::spawn(self.0.clone().run_until_cancelled_owned(task));
    }
}

impl tonic::codegen::Service<Request<Body>> for Wire {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Incoming>, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.sender.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.sender.send_request(request))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::authority;

    #[test]
    fn only_a_path_with_an_at_sign_in_its_last_part_is_an_authority() {
        let is_authority = |path: &str| origin(&authority::of_path(Path::new(path))).is_some();
        assert!(is_authority("/r/d-1@reg.sock"));
        assert!(!is_authority("/r/d-1-reg.sock"));
        assert!(!is_authority("/r@/d-1-reg.sock"));
    }
}
