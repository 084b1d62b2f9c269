//! Scenarios that mostly wait for kubelet's timers: all at once.

mod batch;
mod calls;
pub(crate) mod health;
mod registration;
mod slices;
