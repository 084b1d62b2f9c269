//! Runs the controller's decisions against a simulated environment: an API server, late watches, lost requests and
//! responses, killed controllers, and users who do arbitrary things. Everything is in memory, and a seed determines
//! the order.
//!
//! After the disorder has ended, no object of ours may be left for deleted domains, and every live domain must have
//! its template and the right status. No foreign template may ever be changed. If every domain has its own IMEX
//! channel, no two may ever have the same one, and none may be assigned before it has been unused for ten minutes.
//! A failure prints its seed and the users' actions.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a failed unwrap or index outside a test function fails the test too"
)]

mod channels;
mod checks;
mod controller;
mod learn;
mod leases;
mod objects;
mod random;
mod server;
mod store;
mod undisturbed;
mod user;
mod world;
