//! The CDI spec files of a host, read once.
//!
//! ```text
//!  dir ── file ──► index (Registry) ──► resolution: the device that a name stands for
//!                        │
//!                        └──► explain: why that one ◄── ignored, suggestion, text_search
//!
//! unread: what a file may define for other readers
//! ```

mod dir;
mod explain;
mod file;
mod ignored;
mod index;
mod limits;
mod resolution;
mod suggestion;
mod text_search;
mod unread;

pub use dir::{DirError, DirState, SpecDir};
pub use explain::{Candidate, Evidence, Explanation, Verdict};
pub use file::{LoadError, MAX_SPEC_LEN, SpecFile};
pub use ignored::{IgnoredFile, IgnoredReason};
pub use index::Registry;
pub use limits::{LimitExceeded, LoadLimits};
pub use resolution::{Conflict, ResolveError, Resolved};
pub use suggestion::Suggestion;
pub(crate) use unread::Unread;

/// The directories that runtimes read unless they are configured otherwise,
/// lowest priority first.
pub const DEFAULT_DIRS: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];
