//! Helpers for the cluster tests. Each file in `tests/` tests one behaviour on the local cluster of
//! `hack/cluster.sh` (real Kubernetes components, mock NVIDIA driver) with the chart installed.
//! `hack/e2e.sh` sets both up and runs the tests.
//!
//! ```text
//! test ──► Namespace (of the test, deleted at the end)
//!      ──► kubectl / on_node ──► hack/cluster.sh ──► the cluster
//!      ──► wait_until("…", condition) ──► fails after TIMEOUT, and prints the
//!                                         components' logs
//! ```
//!
//! A test waits for conditions, not for a fixed time; [`TIMEOUT`] only ends waits that fail.
//! All tests are `#[ignore]`, because they need the cluster.
//!
//! Two suites need no chart. They run inside the cluster, as programs that `hack/cluster.sh exec`
//! starts:
//!
//! * `tests/kubelet`, in the namespaces of node 1, tests `dra-kubelet` against that node's kubelet.
//!   Its drivers run in the test's process, except those that a test kills: they run as the
//!   program `steady-driver`.
//! * `tests/controller`, in the namespaces of the control plane, tests `compute-domain-controller`
//!   against the API server. The controllers are processes of the test.
//!
//! Both use [`run_scenario`], [`until`] and [`Component`].

pub mod channels;
pub mod cliques;
mod cluster;
mod command;
mod component;
pub mod fixtures;
pub mod gpus;
pub mod imex_members;
mod injector;
mod namespace;
pub mod node_pod;
pub mod permissions;
mod program_path;
pub mod release;
mod scenario;
mod timing;
mod wait;

pub use cluster::{Cluster, Namespace};
pub use command::output_of;
pub use component::{Component, admin_kubeconfig, state_directory};
pub use injector::Injector;
pub use namespace::create_namespace;
pub use program_path::program_path;
pub use scenario::{module_and_title, run_scenario};
pub use timing::{at_most, seconds, throughout, until, within};
pub use wait::{TIMEOUT, wait_until};
