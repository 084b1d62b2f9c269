//! Formats errors for pod events and logs. No other module does this.

use std::error::Error;

use dra_common::{Class, error_chain, with_hint};
use dra_kubelet::ClaimError;
use node_claims::UnprepareError;

/// The error that the claim's user reads: what failed, why, and what to do. `class`, `code` and `hint` are
/// those of the driver's `error`.
// req: NODE-39
pub fn prepare_failed(
    error: &dyn Error,
    class: Class,
    code: &'static str,
    hint: &str,
) -> ClaimError {
    ClaimError::new(class, with_hint(&error_chain(error), hint)).with_code(code)
}

/// Like [`prepare_failed`], but always retried.
pub fn unprepare_failed(error: &UnprepareError) -> ClaimError {
    ClaimError::retry(error_chain(error)).with_code(error.code())
}
