use std::sync::atomic::{AtomicU64, Ordering};

use crate::Error;

/// Begins with a dot, so that kubelet, container runtimes and Go's checkpoint
/// store pass over it.
const TEMP_PREFIX: &str = ".durable-";
/// Not an extension that a runtime loads as a CDI spec.
const TEMP_SUFFIX: &str = ".tmp";

/// Whether `name` is that of a temporary of this crate, left behind by a
/// process that died during a replace. No other program's names match.
pub fn is_leftover(name: &str) -> bool {
    name.starts_with(TEMP_PREFIX) && name.ends_with(TEMP_SUFFIX)
}

/// A name for the next temporary, unique in this process. Across processes
/// exclusive creation decides.
pub(crate) fn temporary() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{TEMP_PREFIX}{}-{n}{TEMP_SUFFIX}", std::process::id())
}

pub(crate) fn check(name: &str) -> Result<(), Error> {
    let component = !name.is_empty() && name != "." && name != "..";
    if component && !name.contains(['/', '\0']) && !is_leftover(name) {
        Ok(())
    } else {
        Err(Error::InvalidName {
            name: name.to_owned(),
        })
    }
}
