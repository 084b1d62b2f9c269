//! Updates of containers that no event asks for.

use std::time::Duration;

use tokio::sync::watch;

use crate::api::ContainerUpdate;
use crate::api::generated::{UpdateContainersRequest, UpdateContainersResponse};
use crate::error::UpdateError;
use crate::plugin::Changes;
use crate::trunk::Calls;

/// NRI's service in the runtime.
pub(crate) const RUNTIME_SERVICE: &str = "nri.pkg.api.v1alpha1.Runtime";

/// How long the runtime may take: it applies the updates one by one.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Updates of containers at any time, from
/// [`ServiceBuilder::start_with`](crate::ServiceBuilder::start_with) or
/// [`Service::updates`](crate::Service::updates). Cheap to clone.
///
/// The default, for the tests of plugins, is that of no service: never registered.
#[derive(Clone, Debug)]
pub struct Updates {
    /// Those of the registration, while there is one.
    pub(crate) calls: watch::Receiver<Option<Calls>>,
}

// === impl Updates ===

impl Updates {
    /// Has the runtime change containers now, and returns the updates that it says have
    /// failed.
    ///
    /// containerd returns none: where an update without `ignore_failure` has failed, it
    /// makes the others and answers with an error ([`UpdateError::Refused`]) that does not
    /// say which. An update of a container that does not exist succeeds.
    ///
    /// # Caveats
    ///
    /// Do not await this within a method of the plugin: containerd holds one lock for its
    /// events and for these updates, so that each would wait for the other until the
    /// method's deadline. A method returns its updates, or spawns a task:
    ///
    /// ```
    /// use nri_plugin::api::{Container, ContainerUpdate, PodSandbox};
    /// use nri_plugin::{Context, Events, Plugin, Refusal, Service, Updates};
    ///
    /// struct Quiet {
    ///     updates: Updates,
    /// }
    ///
    /// impl Plugin for Quiet {
    ///     fn events(&self) -> Events {
    ///         Events::POST_START_CONTAINER
    ///     }
    ///
    ///     async fn post_start_container(&self, _: &Context, _: &PodSandbox, container: &Container) -> Result<(), Refusal> {
    ///         let updates = self.updates.clone();
    ///         let update = ContainerUpdate { container_id: container.id.clone(), ..Default::default() };
    ///         tokio::spawn(async move {
    ///             if let Err(error) = updates.update(vec![update].into()).await {
    ///                 eprintln!("{error}");
    ///             }
    ///         });
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), nri_plugin::StartError> {
    /// let service = Service::builder(50, "quiet")
    /// #   .socket("/nonexistent/nri.sock")
    ///     .start_with(|updates| Quiet { updates })?;
    /// # service.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn update(&self, changes: Changes) -> Result<Vec<ContainerUpdate>, UpdateError> {
        let calls = self
            .calls
            .borrow()
            .clone()
            .ok_or(UpdateError::NotRegistered)?;
        let request = UpdateContainersRequest {
            update: changes.updates,
            evict: changes.evictions,
        };
        let answer = calls.call(RUNTIME_SERVICE, "UpdateContainers", &request, TIMEOUT);
        let answer: UpdateContainersResponse = answer.await?;
        Ok(answer.failed)
    }
}

impl Default for Updates {
    fn default() -> Self {
        let (_, calls) = watch::channel(None);
        Self { calls }
    }
}
