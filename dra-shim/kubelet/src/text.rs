//! The reason of a failed request, in one clause.

use std::error::Error;

/// Why a request failed, in one clause: the API server's message, or the innermost
/// error, since `connection refused` says more than the five errors around it.
pub(crate) fn root_cause(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return status.message.clone();
    }
    let mut error: &dyn Error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
