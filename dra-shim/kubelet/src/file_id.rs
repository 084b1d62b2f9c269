//! The identity of a file, independent of its path.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Device and inode of what is at `path` (symbolic links are not followed): tells a
/// file from one that replaced it under the same name.
pub(crate) fn file_id(path: &Path) -> io::Result<(u64, u64)> {
    let meta = fs::symlink_metadata(path)?;
    Ok((meta.dev(), meta.ino()))
}
