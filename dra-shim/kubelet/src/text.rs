//! The root cause of a failed request.

use std::error::Error;

/// Returns the root cause of a failed request: the API server's message, or the innermost
/// error. `connection refused` is more useful than the five errors around it.
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
