//! Scenarios that restart kubelet or measure: one after the other, beside nothing
//! else.

mod health;
mod restarts;
mod rolling;
mod slices;
mod two_drivers;
