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
//! Two suites run inside the cluster, as programs that `hack/cluster.sh exec` starts, and need no
//! chart. `tests/kubelet` is in the namespaces of node 1 and tests `dra-kubelet` against that node's
//! kubelet; its drivers run in the test's own process, or in the program `steady-driver` if the test
//! has to kill them. `tests/controller` is in those of the control plane and tests
//! `compute-domain-controller` against the API server; the controllers are processes of the test.
//! What both need is [`run_scenario`], [`until`] and [`Component`].

mod cluster;
mod command;
mod component;
pub mod fixtures;
mod namespace;
pub mod plugin;
mod program_path;
mod scenario;
mod timing;
mod wait;

pub use cluster::{Cluster, Namespace};
pub use command::output_of;
pub use component::{Component, admin_kubeconfig, state_directory};
pub use namespace::create_namespace;
pub use program_path::program_path;
pub use scenario::{module_and_title, run_scenario};
pub use timing::{at_most, seconds, throughout, until, within};
pub use wait::{TIMEOUT, wait_until};
