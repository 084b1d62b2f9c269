//! Errors as text for pod events and logs: the one place where that is done.

use compute_domain_node::{PrepareError, UnprepareError, with_hint};
use dra_kubelet::ClaimError;
use imex_runtime::error_chain;

/// What the claim's user reads: what is wrong, why, and what to do.
pub(crate) fn prepare_failed(error: &PrepareError) -> ClaimError {
    let class = match error.class() {
        compute_domain_node::Class::Permanent => dra_kubelet::ErrorClass::Permanent,
        compute_domain_node::Class::Retry => dra_kubelet::ErrorClass::Retry,
    };
    ClaimError::new(class, with_hint(&error_chain(error), error.hint())).with_code(error.code())
}

/// As [`prepare_failed`]; Unprepare is always worth another attempt.
pub(crate) fn unprepare_failed(error: &UnprepareError) -> ClaimError {
    ClaimError::retry(error_chain(error)).with_code(error.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_mode_names_the_mode_and_what_to_set() {
        let error = prepare_failed(&PrepareError::AllocationMode {
            mode: "All".to_owned(),
        });
        assert_eq!(error.class(), dra_kubelet::ErrorClass::Permanent);
        assert_eq!(error.code(), "allocation-mode");
        assert_eq!(
            error.message(),
            "allocationMode \"All\" is not supported in host-managed mode, only \"Single\" is; \
             set spec.channel.allocationMode: Single in a new ComputeDomain"
        );
    }
}
