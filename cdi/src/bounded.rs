//! Reading files that may be something else than they should.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The content of the file `path`; `None` if it is longer than `limit` bytes.
pub(crate) fn read(path: &Path, limit: usize) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    // One byte more than the limit tells a file that is too long.
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(Some(bytes).filter(|bytes| bytes.len() <= limit))
}
