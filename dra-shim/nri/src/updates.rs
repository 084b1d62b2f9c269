//! Unsolicited updates of containers.

use std::time::Duration;

use tokio::sync::watch;

use crate::api::ContainerUpdate;
use crate::api::generated::{UpdateContainersRequest, UpdateContainersResponse};
use crate::error::UpdateError;
use crate::plugin::Changes;
use crate::trunk::Calls;

/// Name of NRI's service in the runtime.
pub(crate) const RUNTIME_SERVICE: &str = "nri.pkg.api.v1alpha1.Runtime";

/// Time limit for the runtime, which applies the updates one by one.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Updates containers at any time. From
/// [`ServiceBuilder::start_with`](crate::ServiceBuilder::start_with) or
/// [`Service::updates`](crate::Service::updates). Cheap to clone.
///
/// The default, for tests of plugins, has no service and is never registered.
#[derive(Clone, Debug)]
pub struct Updates {
    /// The calls of the registration; `None` without one.
    pub(crate) calls: watch::Receiver<Option<Calls>>,
}

// === impl Updates ===

impl Updates {
    /// Sends the changes to the runtime, and returns the updates that it reports as failed.
    ///
    /// containerd returns none: if an update without `ignore_failure` fails, it applies the
    /// others and answers with an error ([`UpdateError::Refused`]) that does not name the failed
    /// one. An update of a missing container succeeds.
    ///
    /// # Caveats
    ///
    /// Do not await this within a method of the plugin: containerd uses one lock for events and
    /// for these updates, so that method and update would wait for each other until the method's
    /// deadline. Return the updates from the method, or spawn a task:
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
