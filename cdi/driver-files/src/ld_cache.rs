//! Reads the cache of glibc's dynamic loader, `ld.so.cache`.
//!
//! Format, since glibc 2.2 (`dl-cache.h`): a header of 48 bytes, entries of 24 bytes, and texts that end with NUL.
//! An entry has the position of a library's path at its ninth byte, counted from the header. Older caches have
//! another header and other entries before it. Numbers have the machine's byte order; both supported machines are
//! little-endian.

use std::collections::BTreeSet;

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const COUNT_AT: usize = 20;
const HEADER_LEN: usize = 48;
const ENTRY_LEN: usize = 24;
const PATH_AT: usize = 8;

/// The longest path that a program can open, with its NUL.
const MAX_PATH: usize = 4096;
/// Far more than a host has.
const MAX_DIRS: usize = 1000;

/// The directories of the libraries in a cache, in the cache's order, without duplicates. Empty for a file that is not
/// such a cache; entries that are not valid are left out.
///
/// Entries can share their texts, so a cache of some megabytes can have a million long paths: paths and directories are
/// limited.
pub(crate) fn directories(cache: &[u8]) -> Vec<&str> {
    let Some(cache) = new_format(cache) else {
        return Vec::new();
    };
    let mut seen = BTreeSet::new();
    let dirs = paths(cache).filter_map(|path| Some(path.rsplit_once('/')?.0));
    let absolute = dirs.filter(|dir| dir.starts_with('/'));
    let unique = absolute.filter(|dir| seen.insert(*dir));
    unique.take(MAX_DIRS).collect()
}

fn new_format(cache: &[u8]) -> Option<&[u8]> {
    let mut windows = cache.windows(MAGIC.len());
    let at = windows.position(|window| window == MAGIC)?;
    cache.get(at..)
}

fn paths(cache: &[u8]) -> impl Iterator<Item = &str> {
    let count = number(cache, COUNT_AT).unwrap_or(0);
    let entries = cache.get(HEADER_LEN..).unwrap_or_default();
    let entries = entries.chunks_exact(ENTRY_LEN).take(count);
    entries.filter_map(|entry| text(cache, number(entry, PATH_AT)?))
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let (field, _) = bytes.get(at..)?.split_first_chunk::<4>()?;
    usize::try_from(u32::from_le_bytes(*field)).ok()
}

fn text(bytes: &[u8], at: usize) -> Option<&str> {
    let rest = bytes.get(at..)?;
    let end = rest.iter().take(MAX_PATH).position(|byte| *byte == 0)?;
    str::from_utf8(rest.get(..end)?).ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A cache with libraries at these paths.
    pub(crate) fn cache_of(paths: &[&str]) -> Vec<u8> {
        let mut header = MAGIC.to_vec();
        header.extend(u32::try_from(paths.len()).unwrap().to_le_bytes());
        header.resize(HEADER_LEN, 0);
        let mut entries = Vec::new();
        let mut texts = Vec::new();
        for path in paths {
            let at = HEADER_LEN + paths.len() * ENTRY_LEN + texts.len();
            let name_at = at + path.rfind('/').map_or(0, |slash| slash + 1);
            for number in [0x303, name_at, at, 0, 0, 0] {
                entries.extend(u32::try_from(number).unwrap().to_le_bytes());
            }
            texts.extend(path.bytes().chain([0]));
        }
        [header, entries, texts].concat()
    }

    const PATHS: [&str; 4] = [
        "/opt/nvidia/lib/libcuda.so.1",
        "/usr/lib64/libz.so.1",
        "/opt/nvidia/lib/libnvidia-ml.so.1",
        "/lib64/ld.so",
    ];

    #[test]
    fn each_directory_is_listed_once_in_the_order_of_the_cache() {
        assert_eq!(
            directories(&cache_of(&PATHS)),
            ["/opt/nvidia/lib", "/usr/lib64", "/lib64"]
        );
    }

    #[test]
    fn the_cache_behind_one_of_the_old_format_is_read() {
        let mut old = b"ld.so-1.7.0\0".to_vec();
        old.extend(1_u32.to_le_bytes());
        old.extend([0; 16]);
        old.extend(cache_of(&PATHS));
        assert_eq!(directories(&old).len(), 3);
    }

    #[test]
    fn relative_paths_and_names_without_a_directory_are_left_out() {
        let cache = cache_of(&["libcuda.so.1", "lib/libcuda.so.1", "", "/a/b"]);
        assert_eq!(directories(&cache), ["/a"]);
    }

    #[test]
    fn paths_that_no_program_can_open_are_left_out() {
        let paths = [MAX_PATH, MAX_PATH - 1].map(|len| "/a/".to_owned() + &"b".repeat(len - 3));
        let long = paths.each_ref().map(String::as_str);
        assert!(directories(&cache_of(&long[..1])).is_empty());
        assert_eq!(directories(&cache_of(&long)), ["/a"]);
    }

    #[test]
    fn only_the_first_directories_are_listed() {
        let paths: Vec<String> = (0..2 * MAX_DIRS).map(|dir| format!("/{dir}/x")).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let cache = cache_of(&paths);
        let found = directories(&cache);
        assert_eq!((found.len(), found[0]), (MAX_DIRS, "/0"));
    }

    #[test]
    fn no_truncation_and_no_changed_byte_panics() {
        let cache = cache_of(&PATHS);
        for len in 0..cache.len() {
            assert!(directories(&cache[..len]).len() <= 3);
        }
        for at in 0..cache.len() {
            for value in [0, 0x7f, 0xff] {
                let mut damaged = cache.clone();
                damaged[at] = value;
                assert!(directories(&damaged).len() <= PATHS.len());
            }
        }
    }

    #[test]
    fn the_cache_of_this_machine_has_the_directory_of_its_c_library() {
        let Ok(cache) = std::fs::read("/etc/ld.so.cache") else {
            return;
        };
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let libc = maps.split_whitespace().find(|it| it.contains("/libc.so"));
        let (dir, _) = libc.unwrap().rsplit_once('/').unwrap();
        // In an emulator, the C library is another one than the machine's.
        if !dir.starts_with("/lib") && !dir.starts_with("/usr/lib") {
            return;
        }
        let same = |found: &&str| dir.ends_with(*found);
        assert!(directories(&cache).iter().any(same), "{dir}");
    }
}
