//! IMEX channels by an annotation of the pod, `imex-dra/channel: "N"`, where there is no
//! Dynamic Resource Allocation: nodes of older clusters, containerd on its own.
//!
//! ```text
//!  annotation ──► request ──► Allowed ──► Records::hold ──► Plan ──► NRI adjustment
//!                  a number   the node's   one file for      the same device node as
//!                             own list     each sandbox      a claim's CDI spec has
//! ```
//!
//! `Annotations` (feature `plugin`) is the NRI plugin. Nothing here knows an API server: whoever may create
//! pods in a namespace may write annotations, so the node's own list ([`Allowed`]) decides
//! which namespaces may have which channels.
//!
//! [`records_in`] is for others on the node, such as `cdi-gen doctor`: which pods have a
//! channel this way.
//!
//! Everything but `Annotations` is synchronous.

#![forbid(unsafe_code)]

mod allowed;
#[cfg(feature = "plugin")]
mod claims;
#[cfg(feature = "plugin")]
mod plugin;
mod record;
mod records;
mod refused;
mod request;

pub use allowed::{Allowed, AllowedError};
/// Feature `plugin`.
///
#[cfg(feature = "plugin")]
pub use plugin::{Annotations, Paths};
pub use record::{RECORDS_DIR, Record};
pub use records::{Records, Settled, records_in};
pub use refused::Refused;
pub use request::{ANNOTATION, NotAChannel, request};
