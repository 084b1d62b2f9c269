//! Helpers for the cluster tests. Each file in `tests/` tests one behaviour on the local cluster of
//! `hack/cluster.sh` (real Kubernetes components, mock NVIDIA driver) with the chart installed.
//! `hack/e2e.sh` sets both up and runs the tests.
//!
//! ```text
//! test ──► Namespace (of its own, deleted at the end)
//!      ──► kubectl / on_node ──► hack/cluster.sh ──► the cluster
//!      ──► wait_until("…", condition) ──► fails after TIMEOUT, and prints the
//!                                         components' logs
//! ```
//!
//! A test never sleeps for a fixed time: it waits for a condition, and [`TIMEOUT`] can only make it
//! fail. All tests are `#[ignore]`, because they need the cluster.
//!
//! `tests/kubelet` is a separate suite: it runs in the namespaces of node 1 and tests `dra-kubelet`
//! against that node's kubelet. Its drivers run in the test's own process, or in the program
//! `steady-driver` if the test has to kill them.

mod cluster;
pub mod fixtures;
pub mod plugin;
mod program_path;
mod wait;

pub use cluster::{Cluster, Namespace};
pub use program_path::program_path;
pub use wait::{TIMEOUT, wait_until};
