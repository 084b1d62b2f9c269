//! The reconcile logic of `compute-domain-controller`, without I/O: which objects and which status
//! a ComputeDomain should have, and the one API request that comes next. Only the controller uses
//! this crate; it makes the requests.
//!
//! ```text
//! ComputeDomain          ──> Domain            ──┐                 ┌─> Decision::Send(Request) ──> read again, decide again
//!                                                ├──> decide() ────┤
//! its claim templates    ──> ObservedTemplates ──┘                 └─> Decision::Done(Outcome)
//! ```
//!
//! Nothing is remembered between two decisions: each starts from what the API server has, so the
//! controller may be killed after any request, and the next reconcile continues from there.
//!
//! A ComputeDomain that is not being deleted gets a finalizer, then its `ResourceClaimTemplate`,
//! then the status `Ready`. A rejected one gets a status with the reason and nothing else. When one
//! is deleted, its template is deleted, then our finalizer is removed from the template, then from
//! the ComputeDomain. [`lifecycle`] is this order as a state machine, the only place that knows it;
//! `ARCHITECTURE.md` shows its table.
//!
//! This is the host-managed mode, in which the operator runs `nvidia-imex` on the hosts. The
//! driver-managed mode of the Go driver runs it in pods instead and creates `DaemonSets` and
//! further templates. Such objects are recognised and reported, never changed.

mod decide;
mod domain;
mod finalizer;
pub mod lifecycle;
mod observed;
mod rejection;
mod status;
mod template;
mod template_name;
mod template_ref;

pub use decide::{Decision, Outcome, Request, decide};
pub use domain::{Domain, UnidentifiedError};
pub use observed::ObservedTemplates;
pub use rejection::Rejection;
pub use status::{Admission, status_patch};
pub use template_name::TemplateNameError;
pub use template_ref::TemplateRef;
