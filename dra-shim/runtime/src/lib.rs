//! What `compute-domain-controller`, `compute-domain-kubelet-plugin` and `compute-domain-daemon` have
//! in common: command-line options, logs, signals, health and metrics over HTTP, the Kubernetes client,
//! and events. The crate knows nothing of what they do.
//!
//! ```text
//! main ── daemon::main        parses the options; tokio runtime, TLS provider, exit code
//!            │
//!            └─ async run(Args)             `Args` embeds (clap: flatten) the groups of `args`
//!                 ├─ LogArgs::install       logs to stderr as text or JSON, panics too
//!                 ├─ ImexArgs::resolve ───> Settings, which log_settings logs
//!                 ├─ signals::shutdown ───> CancellationToken
//!                 ├─ Readiness ───────────> a ReadinessCondition for each thing that must work;
//!                 │                         together they are /readyz
//!                 ├─ KubeArgs::client ────> Client, see below
//!                 │    └─ observe_watch ──> a Client for one watch, which sets its condition; WatchPauses are
//!                 │                         those between its attempts
//!                 ├─ Events ──────────────> a queue, and a task that writes to events.k8s.io,
//!                 │                         without repetitions
//!                 ├─ Liveness ────────────> a Heartbeat for each long-lived task; together they are
//!                 │                         /livez
//!                 └─ HttpArgs::bind ──────> HttpServer: /livez, /readyz, metrics
//! ```
//!
//! A request passes from the client to the API server through
//!
//! ```text
//! deadline      10 s for the whole response; a watch has 60 s to start. The result sets the
//!     │         condition of the API server
//! retry_after   429 with `Retry-After`: waits as told, with jitter, at most twice; all other
//!     │         answers are the caller's
//! credentials   read again when they are renewed: a token once a minute
//!     │
//! connection    HTTP/1.1 over TLS; the kernel ends a connection 30 to 40 s after its peer vanished
//! ```
//!
//! What comes back is decoded as a [`RawObject`] wherever others may write the objects: one object that
//! cannot be decoded would fail the list or the watch of all. Lists of any length are read with
//! [`for_each_page`].
//!
//! A server that hangs while its kernel still answers is noticed by the deadline of the next request,
//! and on a watch after at most 300 s. Proxies are not supported.
//!
//! An event is reported without waiting. It is lost, and counted, if its queue of 500 is full, if the
//! API server refuses it, or if the API server is away for two minutes. When it is reported again, it
//! is tried again.
//!
//! Only a configuration error ends a program: `run` returns a [`StartError`], which becomes one line
//! on stderr and exit code 1. Everything that can heal without a person (the API server, the driver,
//! the fabric) is a [`ReadinessCondition`], a log line for each change, and an event, while the
//! program retries.
//!
//! # Types of other crates
//! Types and traits of these crates are in the public API, so a program has to use the same versions
//! of them. Cargo takes two that are not compatible for different crates, and the compiler says that
//! types do not match.
//!
//! * `kube`: `Client`, `Resource`, errors;
//! * `k8s-openapi`: `ObjectReference` in [`Events`], metadata in [`RawObject`]. The program, not this
//!   crate, chooses the version of Kubernetes, by a feature such as `v1_34`;
//! * `clap`: `Parser` in [`daemon::main`], `Args` of the groups of options;
//! * `prometheus-client`: `Registry`;
//! * `tokio-util`: `CancellationToken`; `tokio` is the runtime on which everything runs;
//! * `http`: `Uri` in [`KubeError`]; `serde`: [`RawObject`] is read with it;
//! * `compute-domain-api`, of this repository: `Settings` of [`ImexArgs`].

pub mod args;
mod client;
mod connection;
pub mod daemon;
mod deadline;
mod events;
mod http;
mod liveness;
mod logs;
#[cfg(feature = "testing")]
mod metrics_table;
mod pages;
mod raw_object;
mod readiness;
mod retry_after;
pub mod signals;
mod start_error;
mod terminating;
mod token_file;
mod watch;
mod watch_pauses;

pub use args::{HttpArgs, ImexArgs, KubeArgs, LogArgs, log_settings};
pub use client::KubeError;
#[cfg(feature = "testing")]
pub use connection::test_client;
pub use deadline::REQUEST_DEADLINE;
pub use events::Events;
pub use http::HttpServer;
pub use liveness::{Heartbeat, Liveness};
pub use logs::LogFormat;
#[cfg(feature = "testing")]
pub use metrics_table::metrics_table_differences;
pub use pages::{Part, for_each_page};
pub use raw_object::RawObject;
pub use readiness::{Readiness, ReadinessCondition};
pub use start_error::StartError;
pub use terminating::is_namespace_terminating;
pub use watch::observe_watch;
pub use watch_pauses::WatchPauses;
