//! kubelet's side of a plugin: the two sockets and the gRPC services behind them.
//!
//! ```text
//! supervise ──► Endpoints ──┬─ registration socket ─ RegistrationService ─► RegistrationState
//!     │                     └─ service socket ──┬─── DraService ──────────► Operations
//!     ├─► stale_sockets                         └─── HealthService
//!     └─► other_instances
//! ```

mod convert;
mod dra;
mod endpoints;
mod health;
mod message_size;
mod other_instances;
mod registration;
mod sockets;
mod stale_sockets;
mod supervisor;

pub(crate) use endpoints::{Endpoints, Services};
pub(crate) use registration::RegistrationState;
pub(crate) use sockets::Directories;
pub use sockets::SocketError;
pub(crate) use supervisor::supervise;
