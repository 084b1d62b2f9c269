//! Why a CDI name resolves, or why it does not: every file that could define the
//! device, names that are nearly right, and the fix.

mod fix;
mod report;
mod text;
mod unresolved;

pub(crate) use self::report::{Answer, WhyReport};
pub(crate) use self::unresolved::UnresolvedError;
