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
//!
//! * `nvidia-imex -c CFG` reads `KEY=value` lines and then the node list, both once, and stays in the foreground.
//! * The node list has addresses, or names that `/etc/hosts` (or `IMEX_MOCK_HOSTS`) resolves. The first listed address of this machine
//!   is the node's own ("Identified this node as ID n"); without one, the program exits with 1. `IMEX_MOCK_ADDRESS` sets the machine's
//!   address, so many nodes can share one loopback interface.
//! * The program listens on `SERVER_PORT` and dials all other nodes, and retries with a new lookup after 0.5 to 3 s. Nodes with
//!   different lists refuse each other.
//! * On TERM, INT or QUIT, the program notifies the peers and exits with 0. On USR1, it reloads certificates and redials, at most every
//!   5 s. It ignores HUP.
//! * With `IMEX_ENABLE_AUTH_ENCRYPTION=1`, encryption mode `SSL_TLS` and source `FILE`, connections use mutual TLS, and peers without a
//!   certificate of the authority are refused.
//! * `nvidia-imex-ctl [-c CFG | -u SOCKET | -i IP PORT] -q | -N -j` queries `nvidia-imex` on `IMEX_CMD_UNIX_DOMAIN_PATH`
//!   and `IMEX_CMD_BIND_INTERFACE_IP:IMEX_CMD_PORT`.

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
