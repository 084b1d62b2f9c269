//! NRI's service in the fake runtime.

use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;
use tokio::sync::watch;

use super::unsolicited_updates::UnsolicitedUpdates;
use crate::api::generated::{
    Empty, RegisterPluginRequest, UpdateContainersRequest, UpdateContainersResponse,
};
use crate::context::Context;
use crate::plugin::Changes;
use crate::trunk::{Answer, Call, Serve};
use crate::updates::RUNTIME_SERVICE;
use crate::wire::{Code, Status};

/// The service for one connection.
pub(super) struct RuntimeService {
    /// The plugin's registration.
    pub(super) registered: watch::Sender<Option<RegisterPluginRequest>>,
    /// Shared by all connections.
    pub(super) updates: Arc<UnsolicitedUpdates>,
}

// === impl RuntimeService ===

impl Serve for RuntimeService {
    fn timeout(&self) -> Duration {
        Duration::from_secs(60)
    }

    async fn serve(&self, _context: &Context, call: Call) -> Answer {
        let invalid = |_| Status::new(Code::InvalidArgument, "the request cannot be decoded");
        let payload = call.payload.as_slice();
        match (call.service.as_str(), call.method.as_str()) {
            (RUNTIME_SERVICE, "RegisterPlugin") => {
                let request = RegisterPluginRequest::decode(payload).map_err(invalid)?;
                let digits = request
                    .plugin_idx
                    .bytes()
                    .filter(u8::is_ascii_digit)
                    .count();
                if request.plugin_idx.len() != 2 || digits != 2 || request.plugin_name.is_empty() {
                    return Err(Status::new(Code::Unknown, "invalid plugin index"));
                }
                self.registered.send_replace(Some(request));
                Ok(Empty {}.encode_to_vec())
            }
            (RUNTIME_SERVICE, "UpdateContainers") => {
                let request = UpdateContainersRequest::decode(payload).map_err(invalid)?;
                let applied = self.updates.apply(Changes {
                    updates: request.update,
                    evictions: request.evict,
                });
                match applied.await {
                    Ok(()) => Ok(UpdateContainersResponse::default().encode_to_vec()),
                    Err(text) => Err(Status::new(Code::Unknown, text)),
                }
            }
            _ => Err(Status::new(Code::Unimplemented, "no such method")),
        }
    }

    fn late(&self, _method: &str, _after: Duration) -> Answer {
        Err(Status::new(Code::Unknown, "late"))
    }

    fn panicked(&self, _method: &str) -> Answer {
        Err(Status::new(Code::Unknown, "panicked"))
    }
}
