//! The calls of the fake runtime: one for each event.

use super::fake_runtime::{Connected, FakeRuntime};
use crate::api::generated::{
    CreateContainerRequest, CreateContainerResponse, Empty, Event, PostCreateContainerRequest,
    StateChangeEvent, StopContainerRequest, StopContainerResponse, UpdateContainerRequest,
    UpdateContainerResponse, UpdatePodSandboxRequest, ValidateContainerAdjustmentResponse,
};
use crate::api::{
    Container, ContainerUpdate, LinuxResources, PodSandbox, ValidateContainerAdjustmentRequest,
};
use crate::events::Events;
use crate::plugin::{Changes, Creation};
use crate::plugin_service::PLUGIN_SERVICE;
use crate::trunk;

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// No plugin is registered. A runtime continues without it.
    #[error("no plugin is registered")]
    NotRegistered,
    /// The plugin has refused, with this sentence.
    #[error("the plugin refuses: {0}")]
    Refused(String),
    /// The plugin did not answer in time. The fake closes the connection, like NRI.
    #[error("the plugin did not respond in time")]
    TimedOut,
    /// The connection was lost. A runtime continues without the plugin.
    #[error("the connection to the plugin was lost")]
    Lost,
}

/// Each method calls the plugin if it has subscribed to the event, and else returns the empty
/// answer. Calls run one after the other, as in a runtime: a call waits for earlier ones, and
/// for unsolicited updates of the plugin.
impl FakeRuntime {
    /// Calls [`Plugin::run_pod_sandbox`](crate::Plugin::run_pod_sandbox).
    pub async fn run_pod_sandbox(&self, pod: &PodSandbox) -> Result<(), CallError> {
        self.notify(Events::RUN_POD_SANDBOX, Event::RunPodSandbox, pod, None)
            .await
    }

    /// Calls [`Plugin::update_pod_sandbox`](crate::Plugin::update_pod_sandbox).
    pub async fn update_pod_sandbox(
        &self,
        pod: &PodSandbox,
        overhead: &LinuxResources,
        resources: &LinuxResources,
    ) -> Result<(), CallError> {
        let request = UpdatePodSandboxRequest {
            pod: Some(pod.clone()),
            overhead_linux_resources: Some(overhead.clone()),
            linux_resources: Some(resources.clone()),
        };
        let called = self.call(Events::UPDATE_POD_SANDBOX, "UpdatePodSandbox", &request);
        called.await.map(|Empty {}| ())
    }

    /// Calls [`Plugin::post_update_pod_sandbox`](crate::Plugin::post_update_pod_sandbox).
    pub async fn post_update_pod_sandbox(&self, pod: &PodSandbox) -> Result<(), CallError> {
        let event = Event::PostUpdatePodSandbox;
        self.notify(Events::POST_UPDATE_POD_SANDBOX, event, pod, None)
            .await
    }

    /// Calls [`Plugin::stop_pod_sandbox`](crate::Plugin::stop_pod_sandbox).
    pub async fn stop_pod_sandbox(&self, pod: &PodSandbox) -> Result<(), CallError> {
        self.notify(Events::STOP_POD_SANDBOX, Event::StopPodSandbox, pod, None)
            .await
    }

    /// Calls [`Plugin::remove_pod_sandbox`](crate::Plugin::remove_pod_sandbox).
    pub async fn remove_pod_sandbox(&self, pod: &PodSandbox) -> Result<(), CallError> {
        self.notify(
            Events::REMOVE_POD_SANDBOX,
            Event::RemovePodSandbox,
            pod,
            None,
        )
        .await
    }

    /// Calls [`Plugin::create_container`](crate::Plugin::create_container).
    pub async fn create_container(
        &self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<Creation, CallError> {
        let request = CreateContainerRequest {
            pod: Some(pod.clone()),
            container: Some(container.clone()),
        };
        let answer = self.call(Events::CREATE_CONTAINER, "CreateContainer", &request);
        let answer: CreateContainerResponse = answer.await?;
        let mut adjustment = answer.adjust.unwrap_or_default();
        self.options.release.leave_out(&mut adjustment);
        Ok(Creation {
            adjustment,
            changes: Changes {
                updates: answer.update,
                evictions: answer.evict,
            },
        })
    }

    /// Calls [`Plugin::post_create_container`](crate::Plugin::post_create_container).
    pub async fn post_create_container(
        &self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), CallError> {
        let event = Event::PostCreateContainer;
        self.notify(Events::POST_CREATE_CONTAINER, event, pod, Some(container))
            .await
    }

    /// Calls [`Plugin::start_container`](crate::Plugin::start_container).
    pub async fn start_container(
        &self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), CallError> {
        let event = Event::StartContainer;
        self.notify(Events::START_CONTAINER, event, pod, Some(container))
            .await
    }

    /// Calls [`Plugin::post_start_container`](crate::Plugin::post_start_container).
    pub async fn post_start_container(
        &self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), CallError> {
        let event = Event::PostStartContainer;
        self.notify(Events::POST_START_CONTAINER, event, pod, Some(container))
            .await
    }

    /// Calls [`Plugin::update_container`](crate::Plugin::update_container).
    pub async fn update_container(
        &self,
        pod: &PodSandbox,
        container: &Container,
        resources: &LinuxResources,
    ) -> Result<Changes, CallError> {
        let request = UpdateContainerRequest {
            pod: Some(pod.clone()),
            container: Some(container.clone()),
            linux_resources: Some(resources.clone()),
        };
        let answer = self.call(Events::UPDATE_CONTAINER, "UpdateContainer", &request);
        let answer: UpdateContainerResponse = answer.await?;
        Ok(Changes {
            updates: answer.update,
            evictions: answer.evict,
        })
    }

    /// Calls [`Plugin::post_update_container`](crate::Plugin::post_update_container).
    pub async fn post_update_container(
        &self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), CallError> {
        let event = Event::PostUpdateContainer;
        self.notify(Events::POST_UPDATE_CONTAINER, event, pod, Some(container))
            .await
    }

    /// Calls [`Plugin::stop_container`](crate::Plugin::stop_container).
    pub async fn stop_container(
        &self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<Vec<ContainerUpdate>, CallError> {
        let request = StopContainerRequest {
            pod: Some(pod.clone()),
            container: Some(container.clone()),
        };
        let answer = self.call(Events::STOP_CONTAINER, "StopContainer", &request);
        let answer: StopContainerResponse = answer.await?;
        Ok(answer.update)
    }

    /// Calls [`Plugin::remove_container`](crate::Plugin::remove_container).
    pub async fn remove_container(
        &self,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<(), CallError> {
        let event = Event::RemoveContainer;
        self.notify(Events::REMOVE_CONTAINER, event, pod, Some(container))
            .await
    }

    /// Calls [`Plugin::validate`](crate::Plugin::validate).
    pub async fn validate(
        &self,
        request: &ValidateContainerAdjustmentRequest,
    ) -> Result<(), CallError> {
        let answer = self.call(Events::VALIDATE, "ValidateContainerAdjustment", request);
        let answer: ValidateContainerAdjustmentResponse = answer.await?;
        if answer.reject {
            return Err(CallError::Refused(answer.reason));
        }
        Ok(())
    }

    async fn notify(
        &self,
        subscribed: Events,
        event: Event,
        pod: &PodSandbox,
        container: Option<&Container>,
    ) -> Result<(), CallError> {
        let (pod, container) = (Some(pod.clone()), container.cloned());
        let called: Result<Empty, CallError> = if self.options.release.has_calls_for_each_event() {
            let method = subscribed.to_string();
            // All these requests have the same two fields, or only the first.
            let request = PostCreateContainerRequest { pod, container };
            self.call(subscribed, &method, &request).await
        } else {
            let request = StateChangeEvent {
                event: event.into(),
                pod,
                container,
            };
            self.call(subscribed, "StateChange", &request).await
        };
        called.map(|Empty {}| ())
    }

    async fn call<A: prost::Message + Default>(
        &self,
        subscribed: Events,
        method: &str,
        request: &impl prost::Message,
    ) -> Result<A, CallError> {
        let _locked = self.updates.lock().await;
        let connected = self.plugin.borrow().clone();
        let connected = connected.ok_or(CallError::NotRegistered)?;
        let Connected {
            registered,
            calls,
            leave,
        } = connected;
        if !registered.events.contains(subscribed) {
            return Ok(A::default());
        }
        let limit = self.options.request_timeout;
        calls
            .call(PLUGIN_SERVICE, method, request, limit)
            .await
            .map_err(|error| match error {
                trunk::CallError::Refused(status) => CallError::Refused(status.message),
                trunk::CallError::TimedOut(_) => {
                    leave.send_replace(true);
                    CallError::TimedOut
                }
                _ => CallError::Lost,
            })
    }
}
