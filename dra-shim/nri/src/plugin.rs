//! What the author of a plugin implements: [`Plugin`], and its answers.

use std::future::Future;

use crate::api::{
    Container, ContainerAdjustment, ContainerEviction, ContainerUpdate, LinuxResources, PodSandbox,
    ValidateContainerAdjustmentRequest,
};
use crate::context::Context;
use crate::events::Events;
use crate::refusal::Refusal;
use crate::runtime::Runtime;

/// A plugin of NRI: states its events, and implements their methods. The others do nothing.
///
/// # Guarantees of the library
///
/// * **Time.** The runtime gets an answer before it gives up, since a runtime drops a
///   plugin that is late. [`Context::deadline`] is when the library answers in the plugin's
///   place, with what [`ServiceBuilder::on_late`](crate::ServiceBuilder::on_late) says.
/// * **Panics.** A panic becomes an error answer for its call, which says no more than
///   that the plugin panicked. Other calls, and the connection, go on. One in `configure`
///   or `synchronize` ends the registration, as one of these that is late does.
/// * **Concurrency.** At most 16 calls at once. A runtime of today makes one at a time,
///   except for `validate`; a method must not assume that it is alone.
///
/// # Cancellation
///
/// A method's future is **dropped** at its deadline, when the connection is lost, and at
/// the end of a shutdown. What must go on belongs in a task of its own. Blocking work goes
/// through `tokio::task::spawn_blocking`, with a clone of the context whose
/// [`Context::cancellation`] tells it to stop.
///
/// # Errors
///
/// A [`Refusal`] fails the call, and what it is about where the method says so. No other
/// answer of a plugin reaches the user.
///
/// # Order of calls
///
/// In containerd 2.3, for plugins that keep something for each container:
///
/// | what happens | what the runtime calls, each once |
/// |---|---|
/// | the plugin registers | `synchronize`: containers that are created or running, no exited ones; pods, also stopped ones |
/// | a container is created | `create_container`, `post_create_container` |
/// | its creation fails, or any plugin refuses it | `stop_container` and `remove_container`, also of the plugin that refused |
/// | its start fails, or any plugin refuses it | `stop_container`; `remove_container` when kubelet removes it |
/// | it exits | `stop_container`, a moment later |
/// | it is removed | `remove_container`, always after `stop_container` |
/// | any plugin refuses a pod | `stop_pod_sandbox`, `remove_pod_sandbox` |
///
/// `remove_container` may name a container that the plugin has never seen, because it had exited
/// before `synchronize`. It is not called for a container that had exited before containerd was
/// started. So forget a container in `stop_container`, and replace all state in `synchronize`.
pub trait Plugin: Send + Sync + 'static {
    /// The events that the plugin needs. Those that the runtime does not know are left out
    /// of the subscription: [`Plugin::configure`] is told.
    fn events(&self) -> Events;

    /// The connection is made, and the runtime says who it is. `config` is the text that
    /// the administrator has put beside a plugin that the runtime starts; empty otherwise.
    ///
    /// Called for every connection. A refusal ends it; the service makes another one, at
    /// most every five seconds. A plugin that is useless without some event refuses if
    /// [`Runtime::unknown_events`] has it.
    fn configure(
        &self,
        context: &Context,
        config: &str,
        runtime: &Runtime,
    ) -> impl Future<Output = Result<(), Refusal>> + Send {
        let _ = (context, config, runtime);
        async { Ok(()) }
    }

    /// The pods and containers that exist, once for every connection, before the first
    /// event; containerd leaves out containers that have exited. Forget what is not in here:
    /// events of the time without a connection are lost. The updates are applied. A refusal
    /// ends the connection, as that of `configure`.
    fn synchronize(
        &self,
        context: &Context,
        pods: &[PodSandbox],
        containers: &[Container],
    ) -> impl Future<Output = Result<Vec<ContainerUpdate>, Refusal>> + Send {
        let _ = (context, pods, containers);
        async { Ok(Vec::new()) }
    }

    /// A pod's sandbox has been made; it is not running yet. A refusal fails the pod, which
    /// kubelet tries again.
    fn run_pod_sandbox(
        &self,
        context: &Context,
        pod: &PodSandbox,
    ) -> impl Future<Output = Result<(), Refusal>> + Send {
        let _ = (context, pod);
        async { Ok(()) }
    }

    /// A pod's resources are about to be changed, to these. A refusal fails that.
    fn update_pod_sandbox(
        &self,
        context: &Context,
        pod: &PodSandbox,
        overhead: &LinuxResources,
        resources: &LinuxResources,
    ) -> impl Future<Output = Result<(), Refusal>> + Send {
        let _ = (context, pod, overhead, resources);
        async { Ok(()) }
    }

    /// A pod's resources have been changed.
    fn post_update_pod_sandbox(
        &self,
        context: &Context,
        pod: &PodSandbox,
    ) -> impl Future<Output = Result<(), Refusal>> + Send {
        let _ = (context, pod);
        async { Ok(()) }
    }

    /// A pod is stopped.
    fn stop_pod_sandbox(
        &self,
        context: &Context,
        pod: &PodSandbox,
    ) -> impl Future<Output = Result<(), Refusal>> + Send {
        let _ = (context, pod);
        async { Ok(()) }
    }

    /// A pod is removed.
    fn remove_pod_sandbox(
        &self,
        context: &Context,
        pod: &PodSandbox,
    ) -> impl Future<Output = Result<(), Refusal>> + Send {
        let _ = (context, pod);
        async { Ok(()) }
    }

    /// A container is about to be created as `container` says, which has what kubelet asked
    /// for and what plugins before this one have added. In containerd the nodes of CDI
    /// devices that kubelet asked for are among `linux.devices` already; `cdi_devices` has
    /// their names since NRI 0.10.
    ///
    /// A refusal fails the creation with its sentence in an event of the pod; kubelet tries
    /// again with back-off. An adjustment that is in conflict with another plugin's fails
    /// it as well.
    fn create_container(
        &self,
        context: &Context,
        pod: &PodSandbox,
        container: &Container,
    ) -> impl Future<Output = Result<Creation, Refusal>> + Send {
        let _ = (context, pod, container);
        async { Ok(Creation::default()) }
    }

    /// A container has been created, as `container` says after all plugins.
    fn post_create_container(
        &self,
        context: &Context,
        pod: &PodSandbox,
        container: &Container,
    ) -> impl Future<Output = Result<(), Refusal>> + Send {
        let _ = (context, pod, container);
        async { Ok(()) }
    }

    /// A container is about to be started. A refusal fails that with containerd; CRI-O 1.34
    /// logs it, and starts the container.
    fn start_container(
        &self,
        context: &Context,
        pod: &PodSandbox,
        container: &Container,
    ) -> impl Future<Output = Result<(), Refusal>> + Send {
        let _ = (context, pod, container);
        async { Ok(()) }
    }

    /// A container has been started.
    fn post_start_container(
        &self,
        context: &Context,
        pod: &PodSandbox,
        container: &Container,
    ) -> impl Future<Output = Result<(), Refusal>> + Send {
        let _ = (context, pod, container);
        async { Ok(()) }
    }

    /// A container's resources are about to be changed, to these. An update of the same
    /// container replaces them. A refusal fails the change.
    fn update_container(
        &self,
        context: &Context,
        pod: &PodSandbox,
        container: &Container,
        resources: &LinuxResources,
    ) -> impl Future<Output = Result<Changes, Refusal>> + Send {
        let _ = (context, pod, container, resources);
        async { Ok(Changes::default()) }
    }

    /// A container's resources have been changed.
    fn post_update_container(
        &self,
        context: &Context,
        pod: &PodSandbox,
        container: &Container,
    ) -> impl Future<Output = Result<(), Refusal>> + Send {
        let _ = (context, pod, container);
        async { Ok(()) }
    }

    /// A container has stopped, or is being stopped, or its creation or its start has failed,
    /// which may have been the refusal of any plugin. Once for each. The updates are of
    /// other containers, such as those that get what this one had.
    fn stop_container(
        &self,
        context: &Context,
        pod: &PodSandbox,
        container: &Container,
    ) -> impl Future<Output = Result<Vec<ContainerUpdate>, Refusal>> + Send {
        let _ = (context, pod, container);
        async { Ok(Vec::new()) }
    }

    /// A container is removed: after `stop_container`, at once where its creation has
    /// failed. It may be one that the plugin has never seen.
    fn remove_container(
        &self,
        context: &Context,
        pod: &PodSandbox,
        container: &Container,
    ) -> impl Future<Output = Result<(), Refusal>> + Send {
        let _ = (context, pod, container);
        async { Ok(()) }
    }

    /// All plugins have adjusted a container: the last word on what they did. `request` has
    /// the container as it was before them, all adjustments, and who made which. A refusal
    /// fails the creation with its sentence. NRI 0.10.
    fn validate(
        &self,
        context: &Context,
        request: &ValidateContainerAdjustmentRequest,
    ) -> impl Future<Output = Result<(), Refusal>> + Send {
        let _ = (context, request);
        async { Ok(()) }
    }
}

/// What a plugin asks for when a container is created. Nothing by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Creation {
    /// Changes to the container that is created.
    pub adjustment: ContainerAdjustment,
    /// Updates of other containers, and evictions.
    pub changes: Changes,
}

/// Changes to containers that exist. None by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// New resources of containers.
    pub updates: Vec<ContainerUpdate>,
    /// Containers to stop, with reasons. **No runtime does it yet**: up to NRI 0.12.5 they
    /// are accepted and ignored.
    pub evictions: Vec<ContainerEviction>,
}

// === impl Creation ===

impl From<ContainerAdjustment> for Creation {
    fn from(adjustment: ContainerAdjustment) -> Self {
        Self {
            adjustment,
            changes: Changes::default(),
        }
    }
}

// === impl Changes ===

impl From<Vec<ContainerUpdate>> for Changes {
    fn from(updates: Vec<ContainerUpdate>) -> Self {
        Self {
            updates,
            evictions: Vec::new(),
        }
    }
}
