//! NRI's service in the runtime.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prost::Message as _;
use tokio::sync::watch;

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
    /// What the plugin has registered as.
    pub(super) registered: watch::Sender<Option<RegisterPluginRequest>>,
    /// Of all connections.
    pub(super) updates: Arc<Mutex<Vec<Changes>>>,
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
                let mut updates = self.updates.lock().unwrap_or_else(PoisonError::into_inner);
                updates.push(Changes {
                    updates: request.update,
                    evictions: request.evict,
                });
                Ok(UpdateContainersResponse::default().encode_to_vec())
            }
            _ => Err(Status::new(Code::Unimplemented, "no such method")),
        }
    }

    fn late(&self, _method: &str, _after: Duration) -> Answer {
        Err(Status::new(Code::Unknown, "late"))
    }
}
