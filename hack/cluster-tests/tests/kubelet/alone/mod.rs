//! Scenarios that restart kubelet or measure: they run one at a time.

mod health;
mod restarts;
mod rolling;
mod slices;
mod two_drivers;
