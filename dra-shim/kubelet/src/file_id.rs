//! The identity of a file, independent of its path.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Returns device and inode of the file at `path`, without following symbolic links. They
/// distinguish a file from its replacement under the same name.
pub(crate) fn file_id(path: &Path) -> io::Result<(u64, u64)> {
    let meta = fs::symlink_metadata(path)?;
    Ok((meta.dev(), meta.ino()))
}
