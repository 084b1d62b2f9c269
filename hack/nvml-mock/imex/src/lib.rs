//! Shared code of the stand-ins for `nvidia-imex` and `nvidia-imex-ctl`.
//!
//! ```text
//! nvidia-imex -c CFG ── config, node_list ──> Domain: one per process
//!      signals ─> TERM, INT, QUIT: notify the peers, end; USR1: redial; HUP: ignored
//!      server ──> accepts nodes with the same node list, refuses others
//!      dialer ──> one thread for each other line of the node list
//!      endpoint <── nvidia-imex-ctl -q, -N
//! ```
//!
//! Files, signals, names, states and exit codes are those of the real programs. The protocols between
//! the stand-ins are not. `faults` has the faults that tests can inject.

pub mod clock;
pub mod config;
pub mod dialer;
pub mod domain;
pub mod endpoint;
pub mod faults;
pub mod node_list;
pub mod program;
pub mod report;
pub mod server;
pub mod tls;
