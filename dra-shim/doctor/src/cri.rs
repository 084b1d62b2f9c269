//! Queries to the container runtime behind a CRI socket.
//!
//! CRI is gRPC (`k8s.io/cri-api`, `pkg/apis/runtime/v1/api.proto`). This module makes two of
//! its calls, and its messages have only the fields that are read. CRI-O also serves its
//! configuration by HTTP on the same socket (`/config`, `server/inspect.go`).

use std::collections::BTreeMap;
use std::fs::File;
use std::future::Future;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use h2::client;
use http::{HeaderMap, Request};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::runtime;
use tokio::time;

/// The deadline of one call, including the connection.
const LIMIT: Duration = Duration::from_secs(3);

/// The limit of an answer in bytes, as in kubelet.
const MAX_ANSWER_LEN: usize = 16 << 20;

/// The bytes before a gRPC message: the compression flag and the length.
const PREFIX: usize = 5;

const CLOSED: &str = "the runtime closed the connection";

/// The gRPC status of a service that the server does not have.
const UNIMPLEMENTED: &str = "12";

/// The longest path that fits into a socket's address.
const MAX_ADDRESS_LEN: usize = 107;

/// The answer to `Version`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Version {
    /// `containerd`, `cri-o`.
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    /// `v2.1.3`.
    #[prost(string, tag = "3")]
    pub(crate) version: String,
}

#[derive(Clone, PartialEq, Message)]
struct StatusRequest {
    #[prost(bool, tag = "1")]
    verbose: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(btree_map = "string, string", tag = "2")]
    info: BTreeMap<String, String>,
}

/// Why a query failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CriError {
    /// There is no socket, or nothing listens on it.
    #[error("nothing listens there")]
    Absent,
    /// This process may not connect.
    #[error("only root may connect")]
    Denied,
    /// The listening program does not serve kubelet.
    #[error("the program that listens on this socket does not serve CRI")]
    WithoutCri,
    /// It did not answer in time.
    #[error("no response within {} s", LIMIT.as_secs())]
    TimedOut,
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

/// Queries the runtime's name and version.
pub(crate) fn version(socket: &Path) -> Result<Version, CriError> {
    call(socket, |stream| async {
        // The request's only field, the caller's API version, is ignored.
        grpc(stream, "Version", Vec::new()).await
    })
}

/// Queries the runtime's status with its debugging information: JSON by name.
pub(crate) fn verbose_status(socket: &Path) -> Result<BTreeMap<String, String>, CriError> {
    let request = StatusRequest { verbose: true }.encode_to_vec();
    let status: Status = call(socket, |stream| grpc(stream, "Status", request))?;
    Ok(status.info)
}

/// Queries CRI-O's effective configuration, in TOML.
pub(crate) fn crio_config(socket: &Path) -> Result<String, CriError> {
    call(socket, |mut stream| async move {
        // HTTP 1.0: the answer is not chunked and ends with the connection.
        stream
            .write_all(b"GET /config HTTP/1.0\r\nHost: crio\r\n\r\n")
            .await?;
        let mut answer = Vec::new();
        let limit = u64::try_from(MAX_ANSWER_LEN).unwrap_or(u64::MAX);
        stream.take(limit).read_to_end(&mut answer).await?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        let status = head.lines().next().unwrap_or_default();
        if status.split(' ').nth(1) == Some("200") {
            Ok(body.to_owned())
        } else {
            Err(CriError::Failed(format!("GET /config returned {status:?}")))
        }
    })
}

/// Runs one call on a thread of its own: the caller's thread may belong to an asynchronous
/// program, which must not block.
fn call<T, C>(socket: &Path, ask: impl FnOnce(UnixStream) -> C + Send) -> Result<T, CriError>
where
    T: Send,
    C: Future<Output = Result<T, CriError>>,
{
    thread::scope(|scope| {
        let asked = scope.spawn(move || {
            let runtime = runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            let answer = async { ask(connect(socket).await?).await };
            let in_time = async { time::timeout(LIMIT, answer).await };
            runtime.block_on(in_time).unwrap_or(Err(CriError::TimedOut))
        });
        let died = |_| CriError::Failed("the call ended early".to_owned());
        asked.join().map_err(died)?
    })
}

/// Connects to the socket; if its path is too long for an address, through its directory.
async fn connect(socket: &Path) -> Result<UnixStream, CriError> {
    if socket.as_os_str().len() <= MAX_ADDRESS_LEN {
        return Ok(UnixStream::connect(socket).await?);
    }
    let (Some(dir), Some(name)) = (socket.parent(), socket.file_name()) else {
        return Err(CriError::Absent);
    };
    let dir = File::open(dir)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd()));
    Ok(UnixStream::connect(short.join(name)).await?)
}

/// Makes one unary call to the runtime's service.
async fn grpc<T: Message + Default>(
    stream: UnixStream,
    method: &str,
    request: Vec<u8>,
) -> Result<T, CriError> {
    let (mut service, connection) = client::handshake(stream).await?;
    // The task ends with the call: each call has a tokio runtime of its own.
    tokio::spawn(connection);
    let call = Request::post(format!(
        "http://localhost/runtime.v1.RuntimeService/{method}"
    ))
    .header("content-type", "application/grpc")
    .header("te", "trailers")
    .body(())
    .map_err(|error| CriError::Failed(error.to_string()))?;
    let (answer, mut body) = service.send_request(call, false)?;
    let length = u32::try_from(request.len()).unwrap_or(u32::MAX);
    let mut framed = vec![0];
    framed.extend(length.to_be_bytes());
    framed.extend(request);
    body.send_data(framed.into(), true)?;
    let answer = answer.await?;
    check(answer.headers())?;
    let mut body = answer.into_body();
    let mut data = Vec::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk?;
        body.flow_control().release_capacity(chunk.len())?;
        data.extend_from_slice(&chunk);
        if data.len() > MAX_ANSWER_LEN {
            return Err(CriError::Failed("the response is too long".to_owned()));
        }
    }
    if let Some(trailers) = body.trailers().await? {
        check(&trailers)?;
    }
    let message = data.get(PREFIX..).unwrap_or_default();
    T::decode(message).map_err(|error| CriError::Failed(error.to_string()))
}

/// Checks the status of a call: in the headers if it failed at once, else in the trailers.
fn check(headers: &HeaderMap) -> Result<(), CriError> {
    let text = |name| headers.get(name).and_then(|it| it.to_str().ok());
    match text("grpc-status") {
        None | Some("0") => Ok(()),
        Some(UNIMPLEMENTED) => Err(CriError::WithoutCri),
        Some(status) => {
            let message = text("grpc-message").unwrap_or_default();
            Err(CriError::Failed(format!("gRPC status {status} {message}")))
        }
    }
}

// === impl CriError ===

impl From<io::Error> for CriError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::ConnectionRefused => Self::Absent,
            io::ErrorKind::PermissionDenied => Self::Denied,
            io::ErrorKind::WouldBlock => {
                Self::Failed("the runtime's connection queue is full".to_owned())
            }
            io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::UnexpectedEof => Self::Failed(CLOSED.to_owned()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl From<h2::Error> for CriError {
    fn from(error: h2::Error) -> Self {
        let why = if error.is_io() || error.is_reset() || error.is_go_away() {
            CLOSED
        } else {
            "the program that listens on this socket does not speak gRPC"
        };
        Self::Failed(why.to_owned())
    }
}
