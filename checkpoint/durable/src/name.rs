use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;

/// Begins with a dot, so that kubelet, container runtimes and Go's checkpoint store
/// ignore the file.
const TEMP_PREFIX: &str = ".durable-";
/// Not an extension of CDI specs, which runtimes would load.
const TEMP_SUFFIX: &str = ".tmp";
/// Linux's limit, in bytes.
const MAX_LENGTH: usize = 255;

/// Whether `name` is the name of a temp file of this crate. A process that dies
/// during a replace leaves one behind. No other program uses such names.
pub fn is_temp_file(name: &str) -> bool {
    name.starts_with(TEMP_PREFIX) && name.ends_with(TEMP_SUFFIX)
}

/// A name for the next temp file, unique in this process. Exclusive creation
/// detects collisions with other processes.
pub(crate) fn next_temp() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{TEMP_PREFIX}{}-{n}{TEMP_SUFFIX}", std::process::id())
}

/// Refuses a name that is not a single path component, or is a temp file's.
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
