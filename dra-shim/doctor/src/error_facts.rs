//! Why something of a host could not be read or used.

/// An error of one of the libraries that read a host, reduced to what a finding
/// needs. Paths in it are the host's own names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorFacts {
    /// The error's stable code, which becomes the finding's id.
    pub code: &'static str,
    /// The error and its sources, on one line.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}
