//! The controller's decisions in a model of everything around them: an API server, watches that tell
//! late and out of step, requests and responses that are lost, controllers that are killed, and users
//! who do what they like. Everything is in memory, in an order that a seed decides.
//!
//! Once nothing happens any more, nothing of ours may be left for domains that are gone, and every
//! domain that lives has to have its template and the right status; no foreign template may ever be
//! touched. Where every domain has an IMEX channel of its own, no two may ever have the same one, and none
//! may be given before it has been out of use for ten minutes. A failure names its seed and what the users did.
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
