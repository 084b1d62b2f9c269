//! A directory in memory, with faults and crashes.
//!
//! ```text
//!  Dir calls ──► operations.rs ──► backend.rs ──► disk.rs: Event ──► image.rs   the current disk
//!                                                    │ recorded
//!                                                    ▼
//!                           crash.rs: each moment of the record ──► loss.rs   the possible disks
//! ```

mod backend;
mod crash;
mod dir;
mod disk;
mod image;
mod loss;
#[cfg(test)]
mod tests;

pub use self::crash::{Cause, Counts, Crash, enumerate};
pub use self::dir::SimDir;
pub use self::disk::Step;
