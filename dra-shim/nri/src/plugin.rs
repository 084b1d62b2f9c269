//! The trait [`Plugin`] that a plugin implements, and its answers.

use std::future::Future;

use crate::api::{
    Container, ContainerAdjustment, ContainerEviction, ContainerUpdate, LinuxResources, PodSandbox,
    ValidateContainerAdjustmentRequest,
};
use crate::context::Context;
use crate::events::Events;
use crate::refusal::Refusal;
use crate::runtime::Runtime;

/// An NRI plugin: returns its events and implements their methods. The default methods do nothing.
///
/// # Guarantees of the library
///
/// * **Time.** The runtime always gets an answer in time, because it drops late plugins. At
///   [`Context::deadline`] the library answers in the plugin's place, as set with
///   [`ServiceBuilder::on_late`](crate::ServiceBuilder::on_late).
/// * **Panics.** A panic fails its call with an error that only reports the panic. Other calls
///   and the connection continue. A panic in `configure` or `synchronize` ends the registration,
///   like a late answer of these.
/// * **Concurrency.** At most 16 calls at once. Today's runtimes make one at a time, except for
///   `validate`, but a method must not rely on that.
///
/// # Cancellation
///
/// A method's future is **dropped** at its deadline, when the connection is lost, and at the
/// end of a shutdown. Spawn a task for work that must continue. Run blocking work with
/// `tokio::task::spawn_blocking` and a clone of the context, and stop it on
/// [`Context::cancellation`].
///
/// # Errors
///
/// A [`Refusal`] fails the call, and the runtime's operation where the method's description
/// says so. It is the only answer of a plugin that reaches the user.
///
/// # Order of calls
///
/// In containerd 2.3, for plugins that keep state for each container:
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
/// before `synchronize`. It is not called for a container that had exited before containerd
/// started. So drop a container's state in `stop_container`, and replace all state in
/// `synchronize`.
pub trait Plugin: Send + Sync + 'static {
    /// The events that the plugin needs. The subscription leaves out events that the runtime
    /// does not know; [`Plugin::configure`] gets them.
    fn events(&self) -> Events;

    /// Called first on every connection, with the runtime's description. `config` is the
    /// administrator's configuration for a plugin that the runtime starts; empty otherwise.
    ///
    /// A refusal ends the connection; the service reconnects, at most every five seconds. A
    /// plugin that needs an event refuses if [`Runtime::unknown_events`] has it.
    fn configure(
        &self,
        context: &Context,
        config: &str,
        runtime: &Runtime,
    ) -> impl Future<Output = Result<(), Refusal>> + Send {
        let _ = (context, config, runtime);
        async { Ok(()) }
    }

    /// Called with the existing pods and containers, once per connection, before the first
    /// event. containerd leaves out exited containers. Drop the state of all others: events
    /// during the time without a connection are lost. The runtime applies the returned updates.
    /// A refusal ends the connection, as in `configure`.
    fn synchronize(
        &self,
        context: &Context,
        pods: &[PodSandbox],
        containers: &[Container],
    ) -> impl Future<Output = Result<Vec<ContainerUpdate>, Refusal>> + Send {
        let _ = (context, pods, containers);
        async { Ok(Vec::new()) }
    }

    /// A pod's sandbox has been created and is not running yet. A refusal fails the pod; kubelet
    /// retries.
    fn run_pod_sandbox(
        &self,
        context: &Context,
        pod: &PodSandbox,
    ) -> impl Future<Output = Result<(), Refusal>> + Send {
        let _ = (context, pod);
        async { Ok(()) }
    }

    /// A pod's resources are about to change to these. A refusal fails the change.
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

    /// A container is about to be created. `container` has kubelet's request and the adjustments
    /// of earlier plugins. In containerd, `linux.devices` already has the nodes of the CDI devices
    /// that kubelet has requested; `cdi_devices` has their names since NRI 0.10.
    ///
    /// A refusal fails the creation, with its sentence in an event of the pod; kubelet retries
    /// with back-off. An adjustment in conflict with another plugin's fails it, too.
    fn create_container(
        &self,
        context: &Context,
        pod: &PodSandbox,
        container: &Container,
    ) -> impl Future<Output = Result<Creation, Refusal>> + Send {
        let _ = (context, pod, container);
        async { Ok(Creation::default()) }
    }

    /// A container has been created. `container` has the adjustments of all plugins.
    fn post_create_container(
        &self,
        context: &Context,
        pod: &PodSandbox,
        container: &Container,
    ) -> impl Future<Output = Result<(), Refusal>> + Send {
        let _ = (context, pod, container);
        async { Ok(()) }
    }

    /// A container is about to be started. With containerd a refusal fails the start; CRI-O 1.34
    /// logs it and starts the container.
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

    /// A container's resources are about to change to these. A returned update of the same
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

    /// A container has stopped or is being stopped, or its creation or start has failed, also
    /// because of a plugin's refusal. Called once per container. The returned updates are for
    /// other containers, for example those that get its resources.
    fn stop_container(
        &self,
        context: &Context,
        pod: &PodSandbox,
        container: &Container,
    ) -> impl Future<Output = Result<Vec<ContainerUpdate>, Refusal>> + Send {
        let _ = (context, pod, container);
        async { Ok(Vec::new()) }
    }

    /// A container is removed, after `stop_container`; immediately if its creation has failed.
    /// The plugin may never have seen it.
    fn remove_container(
        &self,
        context: &Context,
        pod: &PodSandbox,
        container: &Container,
    ) -> impl Future<Output = Result<(), Refusal>> + Send {
        let _ = (context, pod, container);
        async { Ok(()) }
    }

    /// All plugins have adjusted a container; this call can still reject the result. `request`
    /// has the container before the adjustments, all adjustments, and the plugin of each. A
    /// refusal fails the creation with its sentence. NRI 0.10.
    fn validate(
        &self,
        context: &Context,
        request: &ValidateContainerAdjustmentRequest,
    ) -> impl Future<Output = Result<(), Refusal>> + Send {
        let _ = (context, request);
        async { Ok(()) }
    }
}

/// A plugin's answer to the creation of a container. Empty by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Creation {
    /// Changes to the new container.
    pub adjustment: ContainerAdjustment,
    /// Updates of other containers, and evictions.
    pub changes: Changes,
}

/// Changes to existing containers. Empty by default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// New resources of containers.
    pub updates: Vec<ContainerUpdate>,
    /// Containers to stop, with reasons. **Not implemented by any runtime**: NRI up to 0.12.5
    /// accepts and ignores them.
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
