//! The common parts of `compute-domain-controller`, `compute-domain-kubelet-plugin` and
//! `compute-domain-daemon`: command-line options, logs, signals, health and metrics over HTTP, the
//! Kubernetes client, and events. It contains none of their own logic.
//!
//! ```text
//! main ── daemon::main        parses the options; tokio runtime, TLS provider, exit code
//!            │
//!            └─ async run(Args)             `Args` embeds (clap: flatten) the groups of `args`
//!                 ├─ LogArgs::install       logs to stderr as text or JSON, including panics
//!                 ├─ ImexArgs::resolve ───> Settings, which log_settings logs
//!                 ├─ signals::shutdown ───> CancellationToken
//!                 ├─ Readiness ───────────> one ReadinessCondition for each dependency;
//!                 │                         /readyz serves them
//!                 ├─ KubeArgs::client ────> Client, see below
//!                 │    └─ observe_watch ──> a Client for one watch, which sets its condition;
//!                 │                         WatchPauses is the back-off between attempts
//!                 ├─ Events ──────────────> a queue, and a task that writes to events.k8s.io,
//!                 │                         without repetitions
//!                 ├─ Liveness ────────────> one Heartbeat for each long-lived task; /livez
//!                 │                         serves them
//!                 └─ HttpArgs::bind ──────> HttpServer: /livez, /readyz, metrics
//! ```
//!
//! The layers between the client and the API server:
//!
//! ```text
//! deadline      10 s for the whole response; a watch has 60 s to start. The result sets the
//!     │         condition of the API server
//! retry_after   429 with `Retry-After`: retries after that pause, with jitter, at most twice;
//!     │         the caller gets all other responses
//! credentials   read again after renewal: a token once a minute
//!     │
//! connection    HTTP/1.1 over TLS; the kernel closes it 30 to 40 s after its peer vanished
//! ```
//!
//! Objects that other programs may write are decoded as [`RawObject`]: otherwise one object that
//! cannot be decoded would fail the whole list or watch. [`for_each_page`] reads lists of any length.
//!
//! If the server hangs but its kernel still responds, the deadline of the next request detects it; a
//! watch takes up to 300 s. Proxies are not supported.
//!
//! Reporting an event never blocks. An event is lost and counted if its queue of 500 is full, if the
//! API server refuses it, or if the API server is unavailable for two minutes. It is written when it is
//! reported again.
//!
//! Only a configuration error ends a program: `run` returns a [`StartError`], which becomes one line on
//! stderr and exit code 1. For everything that can recover without intervention (the API server, the
//! driver, the fabric) the program has a [`ReadinessCondition`], logs each change, reports an event and
//! retries.
//!
//! # Types of other crates
//! The public API has types and traits of these crates, so a program must use the same versions. With
//! incompatible versions the compiler reports mismatched types.
//!
//! * `kube`: `Client`, `Resource`, errors;
//! * `k8s-openapi`: `ObjectReference` in [`Events`], metadata in [`RawObject`]. The program, not this
//!   crate, chooses the version of Kubernetes, by a feature such as `v1_34`;
//! * `clap`: `Parser` in [`daemon::main`], `Args` of the option groups;
//! * `prometheus-client`: `Registry`;
//! * `tokio-util`: `CancellationToken`; `tokio` is the runtime;
//! * `http`: `Uri` in [`KubeError`]; `serde`: decodes [`RawObject`];
//! * `compute-domain-api`, of this repository: `Settings` of [`ImexArgs`].

pub mod args;
mod client;
mod connection;
pub mod daemon;
mod deadline;
mod events;
mod http;
mod kubelet_paths;
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
pub use kubelet_paths::KubeletPaths;
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
