//! The registration service: kubelet gets the plugin's name and socket from it, and reports
//! whether it accepted them.

use std::sync::Arc;

use tokio::sync::watch;
use tonic::{Request, Response, Status};

use crate::observer::Observer;
use crate::proto::registration::registration_server::Registration as Service;
use crate::proto::registration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};
use crate::registration::Registration;

/// The current [`Registration`], with its subscribers. Clones share it.
#[derive(Clone)]
pub(crate) struct RegistrationState {
    sender: watch::Sender<Registration>,
    observer: Arc<dyn Observer>,
}

/// The registration service. Answers from memory: kubelet's timeout for `GetInfo` is 1 s.
pub(super) struct RegistrationService {
    pub(super) info: PluginInfo,
    pub(super) state: RegistrationState,
}

// === impl RegistrationState ===

impl RegistrationState {
    pub(crate) fn pending(observer: Arc<dyn Observer>) -> Self {
        let sender = watch::Sender::new(Registration::Pending);
        Self { sender, observer }
    }

    /// Sets the state. Subscribers see a change even if the value is the same.
    pub(super) fn set(&self, registration: Registration) {
        self.observer.registration_changed(&registration);
        self.sender.send_replace(registration);
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Registration> {
        self.sender.subscribe()
    }
}

// === impl RegistrationService ===

#[tonic::async_trait]
impl Service for RegistrationService {
    // req: KUBELET-6
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(self.info.clone()))
    }

    // req: KUBELET-6, KUBELET-7
    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let status = request.into_inner();
        let registration = if status.plugin_registered {
            tracing::info!(endpoint = %self.info.endpoint, "registered with kubelet");
            Registration::Registered
        } else {
            tracing::error!(reason = %status.error, "kubelet refused the registration");
            Registration::Refused {
                reason: status.error,
            }
        };
        self.state.set(registration);
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
