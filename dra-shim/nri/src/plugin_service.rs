//! NRI's service in the plugin: turns the runtime's calls into calls of [`Plugin`]'s methods.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prost::Message;
use tokio::sync::watch;

use crate::api::generated::{
    ConfigureRequest, ConfigureResponse, CreateContainerRequest, CreateContainerResponse, Event,
    PostCreateContainerRequest, StateChangeEvent, StopContainerRequest, StopContainerResponse,
    SynchronizeResponse, UpdateContainerRequest, UpdateContainerResponse, UpdatePodSandboxRequest,
    ValidateContainerAdjustmentResponse,
};
use crate::api::{Container, PodSandbox, ValidateContainerAdjustmentRequest};
use crate::context::Context;
use crate::error::{ConnectionError, seconds};
use crate::identity::Late;
use crate::plugin::{Changes, Plugin};
use crate::refusal::Refusal;
use crate::runtime::Runtime;
use crate::synchronization::Synchronization;
use crate::trunk::{Answer, Call, Serve};
use crate::wire::{Code, Status};

/// The service's name on the wire.
pub(crate) const PLUGIN_SERVICE: &str = "nri.pkg.api.v1alpha1.Plugin";

/// NRI's default, until the runtime sends its own.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// The phase of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) enum Phase {
    #[default]
    Connected,
    Configured(Arc<Runtime>),
    Synchronized(Arc<Runtime>),
    /// The connection ends without a registration.
    Failed(Arc<ConnectionError>),
}

/// The service of one connection.
pub(crate) struct PluginService<P> {
    plugin: Arc<P>,
    /// `50-logger`
    name: String,
    late: Late,
    phase: watch::Sender<Phase>,
    synchronization: Mutex<Synchronization>,
}

// === impl PluginService ===

impl<P: Plugin> PluginService<P> {
    pub(crate) fn new(plugin: Arc<P>, name: String, late: Late) -> Self {
        Self {
            plugin,
            name,
            late,
            phase: watch::Sender::default(),
            synchronization: Mutex::default(),
        }
    }

    pub(crate) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    fn runtime(&self) -> Option<Arc<Runtime>> {
        match &*self.phase.borrow() {
            Phase::Configured(runtime) | Phase::Synchronized(runtime) => Some(Arc::clone(runtime)),
            Phase::Connected | Phase::Failed(_) => None,
        }
    }

    fn failed(&self, error: ConnectionError) -> Status {
        let status = Status::new(Code::Unknown, error.to_string());
        self.phase.send_replace(Phase::Failed(Arc::new(error)));
        status
    }

    fn too_late(&self, method: &'static str, limit: Duration) -> Status {
        self.failed(ConnectionError::Late { method, limit })
    }

    async fn configure(&self, context: &Context, request: &[u8]) -> Answer {
        let request: ConfigureRequest = decode(request)?;
        let events = self.plugin.events();
        let runtime = Arc::new(Runtime::new(&request, events));
        let configured = self.plugin.configure(context, &request.config, &runtime);
        if let Err(refusal) = configured.await {
            return Err(self.failed(ConnectionError::Refused(refusal)));
        }
        if runtime.events.is_empty() {
            // An empty subscription would mean all events.
            return Err(self.failed(ConnectionError::NoKnownEvent {
                runtime: format!("{} {}", runtime.name, runtime.version),
                events,
            }));
        }
        self.phase
            .send_replace(Phase::Configured(Arc::clone(&runtime)));
        let answer = ConfigureResponse {
            events: runtime.events.mask(),
            ..Default::default()
        };
        Ok(answer.encode_to_vec())
    }

    async fn synchronize(&self, context: &Context, request: &[u8]) -> Answer {
        let runtime = self.runtime().ok_or_else(|| {
            Status::new(Code::InvalidArgument, "the plugin is not configured yet")
        })?;
        let part = self.synchronization().add(request);
        let more = part.map_err(|_| {
            let text = "the request cannot be decoded".to_owned();
            self.failed(ConnectionError::Protocol(text))
        })?;
        if more {
            // Tells the runtime that this plugin can join parts.
            let answer = SynchronizeResponse {
                more,
                ..Default::default()
            };
            return Ok(answer.encode_to_vec());
        }
        let whole = std::mem::take(&mut *self.synchronization());
        let synchronized = self
            .plugin
            .synchronize(context, &whole.pods, &whole.containers);
        match synchronized.await {
            Ok(update) => {
                self.phase.send_replace(Phase::Synchronized(runtime));
                let answer = SynchronizeResponse {
                    update,
                    more: false,
                };
                Ok(answer.encode_to_vec())
            }
            Err(refusal) => Err(self.failed(ConnectionError::Refused(refusal))),
        }
    }

    fn synchronization(&self) -> std::sync::MutexGuard<'_, Synchronization> {
        self.synchronization
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the method of an event whose answer is empty.
    async fn notify(
        &self,
        context: &Context,
        event: Event,
        pod: Option<PodSandbox>,
        container: Option<Container>,
    ) -> Answer {
        let plugin = &self.plugin;
        let (pod, container) = (&pod.unwrap_or_default(), &container.unwrap_or_default());
        let done = match event {
            Event::RunPodSandbox => plugin.run_pod_sandbox(context, pod).await,
            Event::StopPodSandbox => plugin.stop_pod_sandbox(context, pod).await,
            Event::RemovePodSandbox => plugin.remove_pod_sandbox(context, pod).await,
            Event::PostUpdatePodSandbox => plugin.post_update_pod_sandbox(context, pod).await,
            Event::PostCreateContainer => {
                plugin.post_create_container(context, pod, container).await
            }
            Event::StartContainer => plugin.start_container(context, pod, container).await,
            Event::PostStartContainer => plugin.post_start_container(context, pod, container).await,
            Event::PostUpdateContainer => {
                plugin.post_update_container(context, pod, container).await
            }
            Event::RemoveContainer => plugin.remove_container(context, pod, container).await,
            // Events with an answer have separate calls; the rest is unknown here.
            _ => Ok(()),
        };
        done.map(|()| Vec::new()).map_err(refused)
    }

    async fn state_change(&self, context: &Context, request: &[u8]) -> Answer {
        let change: StateChangeEvent = decode(request)?;
        let event = change.event();
        self.notify(context, event, change.pod, change.container)
            .await
    }

    async fn create_container(&self, context: &Context, request: &[u8]) -> Answer {
        let request: CreateContainerRequest = decode(request)?;
        let pod = request.pod.unwrap_or_default();
        let container = request.container.unwrap_or_default();
        let creation = self.plugin.create_container(context, &pod, &container);
        let creation = creation.await.map_err(refused)?;
        let answer = CreateContainerResponse {
            adjust: Some(creation.adjustment),
            update: creation.changes.updates,
            evict: creation.changes.evictions,
        };
        Ok(answer.encode_to_vec())
    }

    async fn update_container(&self, context: &Context, request: &[u8]) -> Answer {
        let request: UpdateContainerRequest = decode(request)?;
        let pod = request.pod.unwrap_or_default();
        let container = request.container.unwrap_or_default();
        let resources = request.linux_resources.unwrap_or_default();
        let changes = self
            .plugin
            .update_container(context, &pod, &container, &resources);
        let Changes { updates, evictions } = changes.await.map_err(refused)?;
        let answer = UpdateContainerResponse {
            update: updates,
            evict: evictions,
        };
        Ok(answer.encode_to_vec())
    }

    async fn stop_container(&self, context: &Context, request: &[u8]) -> Answer {
        let request: StopContainerRequest = decode(request)?;
        let pod = request.pod.unwrap_or_default();
        let container = request.container.unwrap_or_default();
        let update = self.plugin.stop_container(context, &pod, &container).await;
        let update = update.map_err(refused)?;
        Ok(StopContainerResponse { update }.encode_to_vec())
    }

    async fn update_pod_sandbox(&self, context: &Context, request: &[u8]) -> Answer {
        let request: UpdatePodSandboxRequest = decode(request)?;
        let pod = request.pod.unwrap_or_default();
        let overhead = request.overhead_linux_resources.unwrap_or_default();
        let resources = request.linux_resources.unwrap_or_default();
        let done = self
            .plugin
            .update_pod_sandbox(context, &pod, &overhead, &resources);
        done.await.map(|()| Vec::new()).map_err(refused)
    }

    async fn validate(&self, context: &Context, request: &[u8]) -> Answer {
        let request: ValidateContainerAdjustmentRequest = decode(request)?;
        Ok(match self.plugin.validate(context, &request).await {
            Ok(()) => Vec::new(),
            Err(refusal) => rejection(&refusal),
        })
    }
}

impl<P: Plugin> Serve for PluginService<P> {
    fn timeout(&self) -> Duration {
        self.runtime()
            .map_or(REQUEST_TIMEOUT, |runtime| runtime.request_timeout)
    }

    async fn serve(&self, context: &Context, call: Call) -> Answer {
        if call.service != PLUGIN_SERVICE {
            let text = format!("no service {}", Refusal::new(&call.service));
            return Err(Status::new(Code::Unimplemented, text));
        }
        let payload = call.payload.as_slice();
        let event = match call.method.as_str() {
            "Configure" => return self.configure(context, payload).await,
            "Synchronize" => return self.synchronize(context, payload).await,
            "CreateContainer" => return self.create_container(context, payload).await,
            "UpdateContainer" => return self.update_container(context, payload).await,
            "StopContainer" => return self.stop_container(context, payload).await,
            "UpdatePodSandbox" => return self.update_pod_sandbox(context, payload).await,
            "ValidateContainerAdjustment" => return self.validate(context, payload).await,
            // Before NRI 0.12, all events with an empty answer use this call.
            "StateChange" => return self.state_change(context, payload).await,
            // No runtime calls this: at its end it closes the connection.
            "Shutdown" => return Ok(Vec::new()),
            "RunPodSandbox" => Event::RunPodSandbox,
            "StopPodSandbox" => Event::StopPodSandbox,
            "RemovePodSandbox" => Event::RemovePodSandbox,
            "PostUpdatePodSandbox" => Event::PostUpdatePodSandbox,
            "PostCreateContainer" => Event::PostCreateContainer,
            "StartContainer" => Event::StartContainer,
            "PostStartContainer" => Event::PostStartContainer,
            "PostUpdateContainer" => Event::PostUpdateContainer,
            "RemoveContainer" => Event::RemoveContainer,
            other => {
                let text = format!("no method {}", Refusal::new(other));
                return Err(Status::new(Code::Unimplemented, text));
            }
        };
        // All these requests have the same two fields, or only the first.
        let request: PostCreateContainerRequest = decode(payload)?;
        self.notify(context, event, request.pod, request.container)
            .await
    }

    // req: NRI-7
    fn late(&self, method: &str, after: Duration) -> Answer {
        let refusal = Refusal::new(format_args!(
            "the NRI plugin {} did not respond within {}",
            self.name,
            seconds(after)
        ));
        // For all other calls an empty answer means: no change, no rejection.
        match (method, self.late) {
            ("Configure", _) => Err(self.too_late("configure", after)),
            ("Synchronize", _) => Err(self.too_late("synchronize", after)),
            ("ValidateContainerAdjustment", Late::Refuse) => Ok(rejection(&refusal)),
            (
                "RunPodSandbox" | "UpdatePodSandbox" | "CreateContainer" | "StartContainer"
                | "UpdateContainer",
                Late::Refuse,
            ) => Err(refused(refusal)),
            _ => Ok(Vec::new()),
        }
    }

    // req: NRI-7
    fn panicked(&self, method: &str) -> Answer {
        Err(match method {
            "Configure" => self.failed(ConnectionError::Panicked("configure")),
            "Synchronize" => self.failed(ConnectionError::Panicked("synchronize")),
            _ => Status::new(Code::Unknown, format!("the plugin panicked in {method}")),
        })
    }
}

fn decode<M: Message + Default>(request: &[u8]) -> Result<M, Status> {
    let wrong = |_| Status::new(Code::InvalidArgument, "the request cannot be decoded");
    M::decode(request).map_err(wrong)
}

/// A refusal in the form of Go plugins: an error without a code, with the plugin's text.
#[expect(
    clippy::needless_pass_by_value,
    reason = "`map_err` passes the error by value"
)]
fn refused(refusal: Refusal) -> Status {
    Status::new(Code::Unknown, refusal.message())
}

/// A validator's rejection: a normal answer, to which the runtime adds the plugin's name.
fn rejection(refusal: &Refusal) -> Vec<u8> {
    let answer = ValidateContainerAdjustmentResponse {
        reject: true,
        reason: refusal.message().to_owned(),
    };
    answer.encode_to_vec()
}
