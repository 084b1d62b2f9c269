/// Whether a caller should retry after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The same call fails again until its arguments or the setup change.
    Permanent,
    /// The same call may succeed later, without a change by the caller.
    Retry,
}
