use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;

/// Begins with a dot, so that kubelet, container runtimes and Go's checkpoint
/// store pass over it.
const TEMP_PREFIX: &str = ".durable-";
/// Not an extension that a runtime loads as a CDI spec.
const TEMP_SUFFIX: &str = ".tmp";
/// What Linux allows, in bytes.
const MAX_LENGTH: usize = 255;

/// Whether `name` is that of a temp file of this crate, as a process that dies
/// during a replace leaves it behind. No other program's names match.
pub fn is_temp_file(name: &str) -> bool {
    name.starts_with(TEMP_PREFIX) && name.ends_with(TEMP_SUFFIX)
}

/// A name for the next temp file, unique in this process. Across processes
/// exclusive creation decides.
pub(crate) fn next_temp() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{TEMP_PREFIX}{}-{n}{TEMP_SUFFIX}", std::process::id())
}

/// Refuses a name that is no single path component, or a temp file's.
pub(crate) fn check(name: &str) -> Result<(), Error> {
    let broken = match name {
        "" => Some("it is empty"),
        "." | ".." => Some("it names a directory"),
        _ if name.contains('/') => Some("it contains a '/'"),
        _ if name.contains('\0') => Some("it contains a NUL"),
        _ if name.len() > MAX_LENGTH => Some("it is longer than 255 bytes"),
        _ if is_temp_file(name) => Some("it is reserved for temp files"),
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
