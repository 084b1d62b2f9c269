//! The registration service: kubelet asks who is there and says what came of it.

use std::sync::Arc;

use tokio::sync::watch;
use tonic::{Request, Response, Status};

use crate::observer::Observer;
use crate::proto::registration::registration_server::Registration as Service;
use crate::proto::registration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};

/// What kubelet last said about this plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Registration {
    /// The sockets are open, or being opened again; kubelet has not answered yet.
    #[default]
    Pending,
    /// kubelet sends its calls here. It never says when that ends; it registers
    /// anew after its restart, and each time counts as a change of the watch.
    Registered,
    /// kubelet refused, and will ask again.
    Refused {
        /// kubelet's words.
        reason: String,
    },
}

impl Registration {
    /// Whether kubelet has accepted the sockets that are open now.
    pub const fn is_registered(&self) -> bool {
        matches!(self, Self::Registered)
    }
}

/// The state as everyone sees it: who waits for it, and the observer.
#[derive(Clone)]
pub(crate) struct Verdict {
    sender: watch::Sender<Registration>,
    observer: Arc<dyn Observer>,
}

impl Verdict {
    pub(crate) fn pending(observer: Arc<dyn Observer>) -> Self {
        let sender = watch::Sender::new(Registration::Pending);
        Self { sender, observer }
    }

    /// Counts as a change even when it is the same state.
    pub(crate) fn set(&self, state: Registration) {
        self.observer.registration(&state);
        self.sender.send_replace(state);
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Registration> {
        self.sender.subscribe()
    }
}

/// Answers from memory: kubelet waits one second for `GetInfo`.
pub(crate) struct Registrar {
    pub(crate) info: PluginInfo,
    pub(crate) verdict: Verdict,
}

#[tonic::async_trait]
impl Service for Registrar {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(self.info.clone()))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let status = request.into_inner();
        let state = if status.plugin_registered {
            tracing::info!(endpoint = %self.info.endpoint, "registered with kubelet");
            Registration::Registered
        } else {
            tracing::error!(reason = %status.error, "kubelet refused the registration");
            Registration::Refused {
                reason: status.error,
            }
        };
        self.verdict.set(state);
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
