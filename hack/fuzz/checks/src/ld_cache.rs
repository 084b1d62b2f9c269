use std::collections::BTreeSet;

use self::reader::directories;

// The crate with the reader does not publish it.
#[path = "../../../../cdi/driver-files/src/ld_cache.rs"]
mod reader;

/// The header and an entry of a cache in the format before glibc 2.2, which may precede one in the present format.
const OLD_CACHE: &[u8] = b"ld.so-1.7.0\0\x01\0\0\0\x03\0\0\0\0\0\0\0\0\0\0\0";

/// The number of prefixes to try of a long cache.
const PREFIXES: usize = 40;

/// Checks that each directory of a loader's cache is absolute, is listed once, and is in the cache with a library behind
/// it; that a cache in the old format before it changes nothing; and that a part of a cache has no other directories.
///
/// # Panics
///
/// If one of these properties does not hold.
pub fn ld_cache(bytes: &[u8]) {
    let found = directories(bytes);
    let unique: BTreeSet<&str> = found.iter().copied().collect();
    assert_eq!(unique.len(), found.len(), "{found:?}");
    for dir in &found {
        let before = [dir, "/"].concat();
        let mut windows = bytes.windows(before.len());
        let is_listed = windows.any(|window| window == before.as_bytes());
        assert!(dir.starts_with('/') && is_listed, "{dir:?} was invented");
    }
    assert_eq!(directories(&[OLD_CACHE, bytes].concat()), found);
    let step = bytes.len().div_ceil(PREFIXES).max(1);
    for end in (0..bytes.len()).step_by(step) {
        let part = directories(bytes.get(..end).unwrap_or_default());
        assert!(part.iter().all(|dir| unique.contains(dir)), "{part:?}");
    }
}
