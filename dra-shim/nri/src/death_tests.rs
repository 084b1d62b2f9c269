//! A runtime that dies at every step: the next one has the plugin within two seconds.

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

/// The give-up deadline of everything that is waited for.
const LIMIT: Duration = Duration::from_secs(30);

/// Never answers for the container `hangs`, and says when it is asked.
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

/// What the runtime does before it dies.
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
    /// Does it, and waits until the plugin has answered, or is at work.
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
            // The plugin's call is there.
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

/// A runtime that goes through all steps up to `last`, and dies.
async fn live_until(last: Step, socket: &Path, at_work: &Notify) {
    let listener = UnixListener::bind(socket).unwrap();
    let (mut stream, _) = timeout(LIMIT, listener.accept()).await.unwrap().unwrap();
    for step in STEPS {
        // Which is one call of the two that hang.
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
async fn a_runtime_that_dies_at_any_step_is_followed_by_one_that_has_the_plugin() {
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
        // With all of it: no part of the other's synchronization is left over.
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
