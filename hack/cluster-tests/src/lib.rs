//! What the cluster tests share. Each file in `tests/` is one behaviour, seen on
//! the real cluster of `hack/cluster.sh` with the chart installed, as
//! `hack/e2e.sh` sets both up.
//!
//! ```text
//! test ──► Namespace (own, deleted at the end)
//!      ──► kubectl / on_node ──► hack/cluster.sh ──► the real components
//!      ──► eventually("…", condition) ──► gives up after GIVE_UP with the tail
//!                                         of the components' logs
//! ```
//!
//! A test waits on conditions only; [`GIVE_UP`] is for giving up, never for
//! passing. All tests are `#[ignore]`: without the cluster they mean nothing.
//!
//! `tests/kubelet` is a suite of its own: it runs inside a node, with drivers in its
//! own process and in that of `steady-driver`, and shares nothing with the others.

mod built;
mod cluster;
pub mod imex;
pub mod plugin;
mod wait;

pub use built::built;
pub use cluster::{Cluster, Namespace};
pub use wait::{GIVE_UP, eventually};
