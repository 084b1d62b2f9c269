//! Kubernetes' own node-level scenarios for DRA (`test/e2e_node/dra_test.go`), and
//! some of our own, against the real kubelet: drivers of `dra-kubelet` in the test's
//! process or in one that it kills.
//!
//! `hack/e2e.sh kubelet` runs this program inside node 1, where it has kubelet's view of
//! `/var/lib/kubelet`. Each scenario has its own namespace and driver name, so that those in
//! [`together`] run in parallel. The test itself acts as the scheduler.
//!
//! Scenarios with a number are upstream's, in the order of its file; those with a word are our own.
#![cfg(test)]

mod alone;
mod support;
mod together;
