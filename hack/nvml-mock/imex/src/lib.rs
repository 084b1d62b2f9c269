//! What the stand-ins for `nvidia-imex` and `nvidia-imex-ctl` have in common.
//!
//! ```text
//! nvidia-imex -c CFG ── config, node_list ──> Domain: one per process
//!      signals ─> TERM, INT, QUIT: tell the peers, end; USR1: dial anew; HUP: nothing
//!      server ──> who dials this node: same node list, or refused
//!      dialer ──> one thread for each other line of the node list
//!      endpoint <── nvidia-imex-ctl -q, -N
//! ```
//!
//! They behave as the real programs do towards whoever runs them: files, signals, names, states, exit
//! codes. The protocols between them are their own. `faults` has what can go wrong on purpose.

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
