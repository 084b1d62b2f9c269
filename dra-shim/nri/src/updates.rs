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
/// [`Service::updates`](crate::Service::updates). Cheap to clone.
#[derive(Clone, Debug)]
pub struct Updates {
    /// Those of the registration, while there is one.
    pub(crate) calls: watch::Receiver<Option<Calls>>,
}

// === impl Updates ===

impl Updates {
    /// Has the runtime change containers now, and returns the updates that failed although
    /// they did not have `ignore_failure`.
    ///
    /// # Caveats
    ///
    /// Do not await this within a method of the plugin: containerd holds one lock for its
    /// events and for these updates, so that each would wait for the other until the
    /// method's deadline. A method returns its updates, or spawns a task.
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
