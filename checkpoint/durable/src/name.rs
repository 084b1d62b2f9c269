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

/// What Linux allows, in bytes.
const LONGEST: usize = 255;

pub(crate) fn check(name: &str) -> Result<(), Error> {
    let broken = match name {
        "" => Some("it is empty"),
        "." | ".." => Some("it is a directory's"),
        _ if name.contains('/') => Some("it has a '/'"),
        _ if name.contains('\0') => Some("it has a NUL"),
        _ if name.len() > LONGEST => Some("it is longer than 255 bytes"),
        _ if is_leftover(name) => Some("it is a temporary's"),
        _ => None,
    };
    match broken {
        None => Ok(()),
        Some(rule) => Err(Error::InvalidName {
            name: name.to_owned(),
            rule,
        }),
    }
}
