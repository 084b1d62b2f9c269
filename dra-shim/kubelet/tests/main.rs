//! The crate as its users have it, with a fake kubelet and a fake API server. One program: each of its own would link
//! them again.
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
