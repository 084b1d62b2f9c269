//! A container runtime's CRI socket, as doctor queries it.

use std::fs;
use std::io::Cursor;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener as StdListener;
use std::path::Path;
use std::thread;

use h2::server;
use http::{HeaderMap, Response};
use serde_json::{Map, Value, json};
use tokio::io::{self, AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

/// What a runtime answers.
#[derive(Clone)]
pub(crate) enum Runtime {
    /// containerd of a version, with the configuration of its verbose status.
    Containerd(&'static str, Value),
    /// CRI-O of a version, with the configuration that it has in HTTP; empty: it has none.
    CriO(&'static str, &'static str),
    /// cri-dockerd.
    CriDockerd,
    /// A runtime of another name.
    Other(&'static str),
    /// containerd with its CRI plugin disabled.
    WithoutCri,
    /// A runtime that accepts connections and never answers.
    Silent,
}

/// containerd's configuration with these members beside those that every release has.
pub(crate) fn containerd_config(cdi: &Value) -> Value {
    let runc = json!({"runtimeType": "io.containerd.runc.v2", "options": {"BinaryName": ""}});
    let handlers = json!({"defaultRuntimeName": "runc", "runtimes": {"runc": runc}});
    let mut config = Map::from_iter([("containerd".to_owned(), handlers)]);
    config.extend(cdi.as_object().unwrap().clone());
    Value::Object(config)
}

/// Serves at a path until the program ends.
pub(crate) fn serve(path: &Path, runtime: Runtime) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // A path may be longer than a socket's address has room for.
    let dir = fs::File::open(path.parent().unwrap()).unwrap();
    let short = format!("/proc/self/fd/{}", dir.as_raw_fd());
    let name = path.file_name().unwrap();
    let listener = StdListener::bind(Path::new(&short).join(name)).unwrap();
    listener.set_nonblocking(true).unwrap();
    thread::spawn(move || {
        let reactor = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        reactor.block_on(async {
            let listener = UnixListener::from_std(listener).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(answer(stream, runtime.clone()));
            }
        });
    });
}

async fn answer(stream: UnixStream, runtime: Runtime) {
    if matches!(runtime, Runtime::Silent) {
        std::future::pending::<()>().await;
    }
    let (mut read, mut write) = stream.into_split();
    let mut start = [0];
    read.read_exact(&mut start).await.unwrap();
    if start == *b"G" {
        let Runtime::CriO(_, config) = &runtime else {
            return;
        };
        // Unread data would break the connection.
        let mut request = start.to_vec();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(read.read_u8().await.unwrap());
        }
        let status = if config.is_empty() {
            "404 Not Found"
        } else {
            "200 OK"
        };
        let head = format!("HTTP/1.0 {status}\r\nContent-Type: application/toml\r\n\r\n");
        write.write_all(head.as_bytes()).await.unwrap();
        write.write_all(config.as_bytes()).await.unwrap();
        return;
    }
    let stream = io::join(Cursor::new(start).chain(read), write);
    let mut connection = server::handshake(stream).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        let method = request.uri().path().rsplit('/').next().unwrap().to_owned();
        let head = Response::builder().header("content-type", "application/grpc");
        let Some(message) = runtime.message(&method) else {
            let head = head.header("grpc-status", "12");
            let head = head.header("grpc-message", "unknown service runtime.v1.RuntimeService");
            respond.send_response(head.body(()).unwrap(), true).unwrap();
            continue;
        };
        let mut framed = vec![0];
        framed.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        framed.extend(message);
        let mut body = respond
            .send_response(head.body(()).unwrap(), false)
            .unwrap();
        body.send_data(framed.into(), false).unwrap();
        let mut status = HeaderMap::new();
        status.insert("grpc-status", "0".parse().unwrap());
        body.send_trailers(status).unwrap();
    }
}

// === impl Runtime ===

impl Runtime {
    /// `None` if it does not have the call.
    fn message(&self, method: &str) -> Option<Vec<u8>> {
        let (name, version) = match self {
            Self::Containerd(version, _) => ("containerd", *version),
            Self::CriO(version, _) => ("cri-o", *version),
            Self::CriDockerd => ("docker", "29.4.0"),
            Self::Other(name) => (*name, "2.1.5"),
            Self::WithoutCri | Self::Silent => return None,
        };
        match (method, self) {
            ("Version", _) => {
                let fields = [(1, "0.1.0"), (2, name), (3, version), (4, "v1")];
                let fields = fields.map(|(tag, text)| field(tag, text.as_bytes()));
                Some(fields.concat())
            }
            ("Status", Self::Containerd(_, config)) => {
                let entries = [
                    ("golang", "\"go1.25\"".to_owned()),
                    ("config", config.to_string()),
                ];
                let entries = entries.map(|(key, value)| {
                    field(
                        2,
                        &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat(),
                    )
                });
                Some(entries.concat())
            }
            _ => None,
        }
    }
}

/// A field of a message: text, bytes or a message.
fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![tag << 3 | 2];
    let mut length = bytes.len();
    while length > 0x7f {
        field.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    field.push(u8::try_from(length).unwrap());
    field.extend_from_slice(bytes);
    field
}
