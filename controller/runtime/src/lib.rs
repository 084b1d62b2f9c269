//! What both daemons share around their logic.
//!
//! ```text
//! main ── daemon::main ── one-line errors, TLS provider, 2 worker threads
//!            │
//!            └─ async run(Args)            Args flatten the groups of `args`
//!                 ├─ LogArgs::install      stderr, text or JSON; panics too
//!                 ├─ ImexArgs::resolve ──> Settings, said by log_settings
//!                 ├─ signals::shutdown ──> CancellationToken
//!                 ├─ Readiness ─ Condition handles ──> /readyz
//!                 ├─ KubeArgs::client  ──> Client: every call has a deadline, and each answer
//!                 │                        or silence moves the condition it was given
//!                 ├─ HttpArgs::bind    ──> HttpServer: /livez, /readyz, metrics
//!                 └─ Events            ──> events.k8s.io, each said once
//! ```
//!
//! A configuration error leaves `run` as a [`StartError`]: one line, exit code 1. The state of the
//! world never ends the process: it is a [`Condition`], a log line per change, an event.

pub mod args;
mod client;
pub mod daemon;
mod error_chain;
mod events;
mod http;
mod logs;
mod readiness;
pub mod signals;
mod start_error;

pub use args::{HttpArgs, ImexArgs, KubeArgs, LogArgs, log_settings};
pub use client::{KubeError, REQUEST_DEADLINE};
pub use error_chain::error_chain;
pub use events::Events;
pub use http::HttpServer;
pub use logs::LogFormat;
pub use readiness::{Condition, Readiness};
pub use start_error::StartError;
