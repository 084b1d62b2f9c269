//! Kubernetes' own node-level scenarios for DRA (`test/e2e_node/dra_test.go`), and
//! some of our own, against the real kubelet: drivers of `dra-kubelet` in the test's
//! process or in one that it kills.
//!
//! Run by `hack/e2e.sh kubelet`, which runs this program inside node 1: it sees
//! `/var/lib/kubelet` as kubelet does. Each scenario has a namespace and a driver
//! name of its own, so that those in [`together`] run side by side. The test itself
//! acts as the scheduler.
//!
//! A scenario with a number is upstream's, numbered in the order of its file; one with a word is
//! our own.
#![cfg(test)]

mod alone;
mod support;
mod together;
