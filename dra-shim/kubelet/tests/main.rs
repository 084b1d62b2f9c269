//! Tests of the crate's public interface, with a fake kubelet and a fake API server. One program, because separate
//! programs would each link them again.
#![cfg(test)]
#![allow(missing_docs, reason = "a test")]

mod support;

mod answers;
mod authority;
mod batch;
mod calls;
mod dropped;
mod lamps;
mod lifecycle;
mod observer;
mod overlap;
mod panics;
mod peer;
mod reachability;
mod restarts;
mod scenarios;
mod slices;
mod slices_rolling;
