//! Tests with a runtime that dies at each step: the plugin registers with the next one within two seconds.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::api::generated::{
    ConfigureRequest, CreateContainerRequest, StartContainerRequest, SynchronizeRequest,
};
use crate::api::{Container, PodSandbox};
use crate::hostile_tests::{message, request};
use crate::testing::{FakeRuntime, Options};
use crate::wire::{ConnectionId, FRAME_HEADER, FrameHeader, MessageKind, Response};
use crate::{Context, Creation, Events, Plugin, Refusal, Service};

/// Time limit of every wait.
const LIMIT: Duration = Duration::from_secs(30);

/// Never answers for the container `hangs`, and notifies when it is called.
struct Hangs(Arc<Notify>);

impl Hangs {
    async fn for_ever(&self, container: &Container) {
        if container.name == "hangs" {
            self.0.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

impl Plugin for Hangs {
    fn events(&self) -> Events {
        Events::CREATE_CONTAINER | Events::START_CONTAINER
    }

    async fn create_container(
        &self,
        _: &Context,
        _: &PodSandbox,
        container: &Container,
    ) -> Result<Creation, Refusal> {
        self.for_ever(container).await;
        Ok(Creation::default())
    }

    async fn start_container(
        &self,
        _: &Context,
        _: &PodSandbox,
        container: &Container,
    ) -> Result<(), Refusal> {
        self.for_ever(container).await;
        Ok(())
    }
}

/// The last step of the runtime before it dies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Accepts,
    AnswersTheRegistration,
    Configures,
    SendsTheFirstPart,
    SendsTheSecondPart,
    SendsTheLastPart,
    HasAContainerCreated,
    CreatesAContainer,
    StartsAContainer,
}

const STEPS: [Step; 9] = [
    Step::Accepts,
    Step::AnswersTheRegistration,
    Step::Configures,
    Step::SendsTheFirstPart,
    Step::SendsTheSecondPart,
    Step::SendsTheLastPart,
    Step::HasAContainerCreated,
    Step::CreatesAContainer,
    Step::StartsAContainer,
];

// === impl Step ===

impl Step {
    /// Executes the step, and waits until the plugin has answered or is at work.
    async fn act(self, stream: &mut UnixStream, at_work: &Notify) {
        let part = |more| SynchronizeRequest {
            pods: vec![PodSandbox::default()],
            more,
            ..Default::default()
        };
        let container = |name: &str| {
            Some(Container {
                name: name.into(),
                ..Default::default()
            })
        };
        let create = |name| CreateContainerRequest {
            container: container(name),
            ..Default::default()
        };
        let bytes = match self {
            // The plugin has sent its registration.
            Self::Accepts => return read_frame(stream).await,
            Self::AnswersTheRegistration => {
                let accepted = Response::new(Ok(Vec::new()));
                let accepted = prost::Message::encode_to_vec(&accepted);
                let accepted = message(ConnectionId::Runtime, 1, MessageKind::Response, accepted);
                return stream.write_all(&accepted).await.unwrap();
            }
            Self::Configures => call(1, "Configure", &ConfigureRequest::default()),
            Self::SendsTheFirstPart => call(3, "Synchronize", &part(true)),
            Self::SendsTheSecondPart => call(5, "Synchronize", &part(true)),
            Self::SendsTheLastPart => call(7, "Synchronize", &part(false)),
            Self::HasAContainerCreated => call(9, "CreateContainer", &create("answers")),
            Self::CreatesAContainer => call(11, "CreateContainer", &create("hangs")),
            Self::StartsAContainer => {
                let start = StartContainerRequest {
                    container: container("hangs"),
                    ..Default::default()
                };
                call(13, "StartContainer", &start)
            }
        };
        stream.write_all(&bytes).await.unwrap();
        match self {
            Self::CreatesAContainer | Self::StartsAContainer => {
                timeout(LIMIT, at_work.notified()).await.unwrap();
            }
            _ => read_frame(stream).await,
        }
    }
}

fn call(stream: u32, method: &str, payload: &impl prost::Message) -> Vec<u8> {
    request(stream, method, payload, Duration::from_secs(2))
}

async fn read_frame(stream: &mut UnixStream) {
    let mut header = [0; FRAME_HEADER];
    timeout(LIMIT, stream.read_exact(&mut header))
        .await
        .unwrap()
        .unwrap();
    let length = FrameHeader::decode(header).unwrap().length;
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).await.unwrap();
}

/// A runtime that executes all steps up to `last`, and dies.
async fn live_until(last: Step, socket: &Path, at_work: &Notify) {
    let listener = UnixListener::bind(socket).unwrap();
    let (mut stream, _) = timeout(LIMIT, listener.accept()).await.unwrap().unwrap();
    for step in STEPS {
        // Only one of the two calls that hang.
        if step == last || step != Step::CreatesAContainer {
            step.act(&mut stream, at_work).await;
        }
        if step == last {
            break;
        }
    }
    std::fs::remove_file(socket).unwrap();
}

// req: NRI-5
#[tokio::test]
async fn the_plugin_registers_again_after_a_runtime_died_at_any_step() {
    for last in STEPS {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("nri.sock");
        let at_work = Arc::new(Notify::new());
        let plugin = Hangs(Arc::clone(&at_work));
        let builder = Service::builder(1, "hangs").socket(&socket);
        let service = builder.start(plugin).unwrap();
        live_until(last, &socket, &at_work).await;
        let back = Instant::now();
        let runtime = FakeRuntime::start(&socket, Options::default()).unwrap();
        timeout(LIMIT, runtime.wait_registered()).await.unwrap();
        let took = back.elapsed();
        assert!(took < Duration::from_secs(2), "{last:?}: {took:?}");
        // Works normally: no part of the dead runtime's synchronization is left.
        let created = runtime
            .create_container(&PodSandbox::default(), &Container::default())
            .await;
        assert_eq!(created.unwrap(), Creation::default(), "{last:?}");
        assert!(
            runtime.failures().is_empty(),
            "{last:?}: {:?}",
            runtime.failures()
        );
        service.shutdown().await;
    }
}
