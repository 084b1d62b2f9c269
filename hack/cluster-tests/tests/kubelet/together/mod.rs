//! Scenarios that mostly wait for kubelet's timers: all at once.

mod batch;
mod calls;
mod health;
mod registration;
mod slices;
