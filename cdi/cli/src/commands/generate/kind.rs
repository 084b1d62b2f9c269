//! The kind of a spec.

use host_doctor::OneLetterKind;
use imex_cdi::Kind;

use crate::outcome::{Failure, Outcome};

/// Refuses a kind that crashes runtimes.
pub(super) fn check_kind(kind: &Kind) -> Result<(), Failure> {
    if OneLetterKind::of(kind).is_none() {
        return Ok(());
    }
    let message = format!(
        "{kind} has a one-letter vendor or class: Go's CDI library up to 1.1.0 panics on \
         such a kind"
    );
    Err(Failure::new(Outcome::Usage, message).hint(
        "use at least two characters each for vendor and class: otherwise every runtime on the host crashes when it reads this file",
    ))
}
