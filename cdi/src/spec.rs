//! The CDI spec: the content of a spec file, checked as runtimes check it.
//!
//! ```text
//!  model ◄── needs ◄── check ◄── build: Spec::new, with_..., from_json, to_json
//!                        │
//!  field ◄── error ◄─────┘
//! ```

mod build;
mod check;
mod check_edits;
mod error;
mod fault;
mod field;
mod model;
mod needs;
mod write;

pub use error::SpecError;
pub use fault::{EditFault, SpecFault};
pub(crate) use field::Field;
#[cfg(feature = "inject")]
pub(crate) use model::RawSpec;
pub use model::{Device, Spec};
