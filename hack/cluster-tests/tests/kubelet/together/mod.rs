//! Scenarios that mostly wait for kubelet's timers: they run in parallel.

mod batch;
mod calls;
mod health;
mod registration;
mod slices;
