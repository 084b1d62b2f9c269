//! One HTTP/2 connection over a unix socket, with any `:authority` that is valid in a URI. A
//! gRPC library's channel reconnects silently; here each opened and lost connection is an
//! event.

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

/// Sends calls on one connection; the generated clients use it.
#[derive(Clone)]
pub(super) struct Transport {
    sender: SendRequest<Body>,
    /// Scheme and authority of every request.
    pub(super) origin: Uri,
}

/// Keeps the connection open. Dropping it cuts the connection.
pub(super) struct Connection {
    ended: CancellationToken,
    _cut: DropGuard,
}

impl Connection {
    /// Waits for the end of the connection, by either side.
    pub(super) async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

/// Returns the origin with this authority. `None` if it is invalid in a URI: servers that parse
/// it as a URI reject it.
pub(super) fn origin(authority: &str) -> Option<Uri> {
    Uri::builder()
        .scheme("http")
        .authority(authority)
        .path_and_query("/")
        .build()
        .ok()
}

pub(super) async fn connect(socket: &Path, origin: Uri) -> io::Result<(Transport, Connection)> {
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
    Ok((Transport { sender, origin }, connection))
}

/// kubelet's log message for a failed call.
pub(super) fn rpc_error(status: &tonic::Status) -> String {
    format!("rpc error: {:?}: {}", status.code(), status.message())
}

/// Runs the connection's tasks until it is cut. There is no GOAWAY, as when kubelet is killed.
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

impl tonic::codegen::Service<Request<Body>> for Transport {
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
    fn only_a_path_with_an_at_sign_in_its_last_part_is_a_valid_authority() {
        let is_authority = |path: &str| origin(&authority::from_path(Path::new(path))).is_some();
        assert!(is_authority("/r/d-1@reg.sock"));
        assert!(!is_authority("/r/d-1-reg.sock"));
        assert!(!is_authority("/r@/d-1-reg.sock"));
    }
}
