//! Tests with a hostile runtime: it must neither cause a panic nor keep the plugin from
//! registering with a real one.

use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::api::generated::{
    ConfigureRequest, CreateContainerRequest, Empty, RegisterPluginRequest, StateChangeEvent,
    SynchronizeRequest,
};
use crate::api::{Container, ContainerAdjustment, PodSandbox};
use crate::testing::{FakeRuntime, Options};
use crate::wire::{
    Assembler, ConnectionId, FRAME_HEADER, FrameHeader, Message, MessageKind, Request, Response,
};
use crate::{ConnectionError, Context, Creation, Events, Plugin, Refusal, Service, State};

/// Time limit of every wait.
const LIMIT: Duration = Duration::from_secs(60);

/// Answers with a mebibyte, at once or after a pause, or never.
#[derive(Clone, Default)]
struct Target {
    hangs: bool,
    pause: Duration,
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Plugin for Target {
    fn events(&self) -> Events {
        Events::ALL
    }

    async fn create_container(
        &self,
        _: &Context,
        _: &PodSandbox,
        _: &Container,
    ) -> Result<Creation, Refusal> {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        if self.hangs {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(self.pause).await;
        self.now.fetch_sub(1, Ordering::SeqCst);
        Ok(ContainerAdjustment::default()
            .with_env("LONG", "x".repeat(1 << 20))
            .into())
    }
}

/// A service, and the hostile end of its connection.
fn mk_service(target: Target) -> (Service, UnixStream) {
    let (ours, theirs) = StdUnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    let service = Service::builder(1, "target").connection(ours).start(target);
    (service.unwrap(), UnixStream::from_std(theirs).unwrap())
}

pub(crate) fn message(
    connection: ConnectionId,
    stream: u32,
    kind: MessageKind,
    payload: Vec<u8>,
) -> Vec<u8> {
    let message = Message {
        stream,
        kind,
        payload,
    };
    message.encode(connection).unwrap()
}

pub(crate) fn request(
    stream: u32,
    method: &str,
    payload: &impl prost::Message,
    timeout: Duration,
) -> Vec<u8> {
    let request = Request {
        service: crate::plugin_service::PLUGIN_SERVICE.into(),
        method: method.into(),
        payload: payload.encode_to_vec(),
        timeout_nano: i64::try_from(timeout.as_nanos()).unwrap(),
    };
    let payload = request.encode_to_vec();
    message(ConnectionId::Plugin, stream, MessageKind::Request, payload)
}

fn create(stream: u32, name_length: usize) -> Vec<u8> {
    let container = Container {
        name: "x".repeat(name_length),
        ..Default::default()
    };
    let create = CreateContainerRequest {
        container: Some(container),
        ..Default::default()
    };
    request(stream, "CreateContainer", &create, LIMIT)
}

/// Messages of a well-behaved runtime: the answer to the registration, and calls.
fn conversation() -> Vec<u8> {
    let seconds = Duration::from_secs(2);
    let configure = ConfigureRequest {
        runtime_name: "containerd".into(),
        runtime_version: "v2.3.0".into(),
        nri_version: "v0.12.0".into(),
        ..Default::default()
    };
    let synchronize = SynchronizeRequest {
        pods: vec![PodSandbox {
            id: "p".into(),
            ..Default::default()
        }],
        containers: vec![Container {
            id: "c".into(),
            ..Default::default()
        }],
        more: false,
    };
    let state = StateChangeEvent {
        event: 1,
        ..Default::default()
    };
    let mut bytes = message(
        ConnectionId::Runtime,
        1,
        MessageKind::Response,
        Response::new(Ok(Empty {}.encode_to_vec())).encode_to_vec(),
    );
    bytes.extend(request(1, "Configure", &configure, seconds));
    bytes.extend(request(3, "Synchronize", &synchronize, seconds));
    bytes.extend(request(5, "StateChange", &state, seconds));
    bytes.extend(create(7, 10));
    bytes.extend(request(
        9,
        "ValidateContainerAdjustment",
        &Empty {},
        seconds,
    ));
    bytes
}

/// Valid frame headers with any payload, which pass the first check.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let frame = (
        prop_oneof![Just(1_u32), Just(2), any::<u32>()],
        vec(any::<u8>(), 0..300),
    );
    vec(frame, 0..30).prop_map(|frames| {
        let mut bytes = Vec::new();
        for (connection, payload) in frames {
            bytes.extend(connection.to_be_bytes());
            bytes.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
            bytes.extend(payload);
        }
        bytes
    })
}

/// Valid messages with any payload, which pass the second check.
fn messages() -> impl Strategy<Value = Vec<u8>> {
    let one = (
        any::<bool>(),
        any::<u32>(),
        0..4_u8,
        vec(any::<u8>(), 0..100),
    );
    vec(one, 0..30).prop_map(|messages| {
        let mut bytes = Vec::new();
        for (served, stream, kind, payload) in messages {
            let connection = if served {
                ConnectionId::Plugin
            } else {
                ConnectionId::Runtime
            };
            let kind = match kind {
                1 => MessageKind::Request,
                2 => MessageKind::Response,
                other => MessageKind::Other(other),
            };
            bytes.extend(message(connection, stream, kind, payload));
        }
        bytes
    })
}

/// The conversation with changed bytes, truncated, which passes most other checks.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let bytes = conversation();
    let length = bytes.len();
    (vec((0..length, any::<u8>()), 0..4), 0..=length).prop_map(move |(changes, end)| {
        let mut bytes = bytes.clone();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        bytes.truncate(end);
        bytes
    })
}

/// Sends the bytes, half-closes, and waits until the service has ended.
async fn attack(bytes: &[u8]) -> Arc<ConnectionError> {
    let (mut service, mut stream) = mk_service(Target::default());
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut answers = Vec::new();
    let read = timeout(LIMIT, stream.read_to_end(&mut answers)).await;
    let _ = read.expect("the service keeps a closed connection");
    let ended = timeout(LIMIT, service.ended()).await;
    ended.expect("the service continues without a connection")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    // req: NRI-8
    #[test]
    fn hostile_bytes_end_only_the_connection(
        bytes in prop_oneof![vec(any::<u8>(), 0..400), frames(), messages(), damaged()],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            // A panic of a task is one of the library: this plugin does not panic.
            let (panics, _guard) = count_panics();
            attack(&bytes).await;
            assert_eq!(panics.load(Ordering::SeqCst), 0);
        });
    }
}

thread_local! {
    static PANICS: std::cell::RefCell<Option<Arc<AtomicUsize>>> = const { std::cell::RefCell::new(None) };
}

struct Uncount;

impl Drop for Uncount {
    fn drop(&mut self) {
        PANICS.with_borrow_mut(|panics| *panics = None);
    }
}

/// Counts panics of this thread: a task's panic does not fail the test.
fn count_panics() -> (Arc<AtomicUsize>, Uncount) {
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.with_borrow(|panics| {
                if let Some(panics) = panics {
                    panics.fetch_add(1, Ordering::SeqCst);
                }
            });
            before(info);
        }));
    });
    let panics = Arc::new(AtomicUsize::new(0));
    PANICS.with_borrow_mut(|counted| *counted = Some(Arc::clone(&panics)));
    (panics, Uncount)
}

#[tokio::test]
async fn bytes_that_are_not_nri_give_one_error_with_the_reason() {
    for (bytes, reason) in [
        (
            [0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff].as_slice(),
            "the frame has 4294967295 bytes; the limit is 4194314",
        ),
        (
            b"HTTP/1.1 400 Bad Request",
            "frame for connection 1213486160, but only connections 1 and 2 exist",
        ),
        (
            // A frame of ten bytes: the header of a message that is too long.
            &[
                0, 0, 0, 1, 0, 0, 0, 10, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1, 1, 0,
            ],
            "the message has 2147483647 bytes; the limit is 4194304",
        ),
    ] {
        let error = attack(bytes).await;
        assert_eq!(error.code(), "protocol");
        assert_eq!(
            error.to_string(),
            format!("the runtime sent data that is not NRI: {reason}")
        );
    }
}

#[tokio::test]
async fn a_plugin_registers_after_any_number_of_hostile_connections() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("nri.sock");
    let listener = tokio::net::UnixListener::bind(&socket).unwrap();
    let service = Service::builder(1, "target")
        .socket(&socket)
        .start(Target::default())
        .unwrap();
    for _ in 0..5 {
        let (mut stream, _) = timeout(LIMIT, listener.accept()).await.unwrap().unwrap();
        let _ = stream.write_all(&[0xff; 100]).await;
    }
    drop(listener);
    let runtime = FakeRuntime::start(&socket, Options::default()).unwrap();
    timeout(LIMIT, runtime.wait_registered()).await.unwrap();
    service.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_accepts_and_sends_nothing_is_given_up() {
    let (mut service, stream) = mk_service(Target::default());
    let ended = service.ended().await;
    assert_eq!(
        ended.to_string(),
        "the runtime did not respond to the registration within 15 s"
    );
    drop(stream);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_registers_and_does_not_configure_is_given_up() {
    let (mut service, mut stream) = mk_service(Target::default());
    let accepted = Response::new(Ok(Vec::new())).encode_to_vec();
    let accepted = message(ConnectionId::Runtime, 1, MessageKind::Response, accepted);
    stream.write_all(&accepted).await.unwrap();
    let ended = service.ended().await;
    assert_eq!(
        ended.to_string(),
        "the runtime did not configure the plugin within 15 s"
    );
}

/// Writes calls until the service takes no bytes for a second, and returns how many it took.
async fn flood(stream: &mut UnixStream, name_length: usize) -> usize {
    let mut taken = 0;
    for stream_id in (11_u32..).step_by(2) {
        let bytes = create(stream_id, name_length);
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            match timeout(Duration::from_secs(1), stream.write(rest)).await {
                Ok(Ok(written)) => {
                    taken += written;
                    rest = &rest[written..];
                }
                Ok(Err(_)) | Err(_) => return taken,
            }
            assert!(taken < 1 << 28, "a quarter of a gibibyte was taken");
        }
    }
    taken
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_calls_is_slowed_down_at_sixteen() {
    let target = Target {
        hangs: true,
        ..Target::default()
    };
    let most = Arc::clone(&target.most);
    let (service, mut stream) = mk_service(target);
    stream.write_all(&conversation()[..]).await.unwrap();
    flood(&mut stream, 10).await;
    assert_eq!(most.load(Ordering::SeqCst), 16);
    drop(service);
}

#[tokio::test]
async fn a_hundred_calls_at_once_are_all_answered() {
    let target = Target {
        pause: Duration::from_millis(20),
        ..Target::default()
    };
    let most = Arc::clone(&target.most);
    let (service, mut stream) = mk_service(target);
    let calls: Vec<_> = (0..100).flat_map(|call| create(2 * call + 1, 10)).collect();
    stream.write_all(&calls).await.unwrap();
    let answers = answers(&mut stream, 100).await;
    assert!(
        answers
            .into_iter()
            .all(|(_, response)| response.into_answer().is_ok())
    );
    // The others wait; none is dropped.
    assert_eq!(most.load(Ordering::SeqCst), 16);
    drop(service);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_reads_no_answers_is_dropped() {
    let (mut service, mut stream) = mk_service(Target::default());
    stream.write_all(&conversation()).await.unwrap();
    let taken = flood(&mut stream, 1000).await;
    // Each call is a few bytes, its answer a mebibyte.
    assert!(taken < 1 << 20, "{taken} bytes");
    let ended = timeout(LIMIT, service.ended()).await.unwrap();
    assert_eq!(ended.code(), "not-read");
}

/// Reads the answers to calls, with their streams.
async fn answers(stream: &mut UnixStream, count: usize) -> Vec<(u32, Response)> {
    let mut assembler = Assembler::default();
    let mut answers = Vec::new();
    while answers.len() < count {
        let mut header = [0; FRAME_HEADER];
        timeout(LIMIT, stream.read_exact(&mut header))
            .await
            .unwrap()
            .unwrap();
        let header = FrameHeader::decode(header).unwrap();
        let mut payload = vec![0; header.length];
        stream.read_exact(&mut payload).await.unwrap();
        if header.connection == ConnectionId::Plugin {
            let mut bytes = payload.as_slice();
            while let Some(message) = assembler.next(&mut bytes).unwrap() {
                let response = Response::decode(message.payload.as_slice()).unwrap();
                answers.push((message.stream, response));
            }
        }
    }
    answers
}

#[tokio::test]
async fn an_invalid_call_gets_an_error_and_the_next_one_is_answered() {
    let (service, mut stream) = mk_service(Target::default());
    let second = Duration::from_secs(1);
    let register = RegisterPluginRequest {
        plugin_name: "x".into(),
        ..Default::default()
    };
    let mut bytes = Vec::new();
    bytes.extend(message(
        ConnectionId::Plugin,
        1,
        MessageKind::Request,
        vec![0xff],
    ));
    bytes.extend(request(2, "RunPodSandbox", &Empty {}, second)); // even
    bytes.extend(request(3, "Synchronize", &Empty {}, second)); // not configured
    bytes.extend(request(3, "RunPodSandbox", &Empty {}, second)); // again
    bytes.extend(request(5, "Explode", &Empty {}, second));
    bytes.extend(request(7, "CreateContainer", &register, second)); // not its request
    bytes.extend(message(
        ConnectionId::Plugin,
        9,
        MessageKind::Other(3),
        vec![1],
    )); // ignored
    bytes.extend(message(
        ConnectionId::Runtime,
        99,
        MessageKind::Response,
        vec![1],
    )); // ignored
    bytes.extend(request(11, "RunPodSandbox", &Empty {}, second));
    stream.write_all(&bytes).await.unwrap();
    let mut answers = answers(&mut stream, 7).await;
    answers.sort_by_key(|(stream, _)| *stream);
    let codes: Vec<_> = answers
        .into_iter()
        .map(|(stream, response)| {
            (
                stream,
                response.into_answer().err().map_or(0, |error| error.code),
            )
        })
        .collect();
    assert_eq!(
        codes,
        [(1, 3), (2, 3), (3, 3), (3, 3), (5, 12), (7, 3), (11, 0)]
    );
    assert!(matches!(
        &*service.state().borrow(),
        State::Connecting(None)
    ));
}
