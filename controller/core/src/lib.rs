//! The controller's decisions, as pure functions.
//!
//! ```text
//! ComputeDomain (watched) ──> Domain ──┐
//!                                      ├── next() ──> Step ──> one API request ──> next() ...
//! claim templates (read)  ──> Observed ┘                └──> Step::Rest(Outcome)
//! ```
//!
//! One step at a time, from what the API server holds: the controller may die after any request,
//! and the next pass goes on from there.
//!
//! A live ComputeDomain gets a finalizer, then its `ResourceClaimTemplate`, then the status
//! `Ready`; a refused one gets a status that says why and nothing else. A deleted one loses its
//! template, the template's finalizer, and its own finalizer, in this order. The `DaemonSets` and
//! daemon templates of the driver-managed mode are recognised and reported, never touched.

mod domain;
mod finalizer;
mod name;
mod refusal;
mod status;
mod step;
mod template;

pub use domain::{Domain, UnidentifiedError};
pub use name::TemplateNameError;
pub use refusal::Refusal;
pub use status::{ADMITTED_REASON, READY_CONDITION, Verdict, status_patch};
pub use step::{Observed, Outcome, Step, next};
pub use template::{TemplateRef, claim_template};
