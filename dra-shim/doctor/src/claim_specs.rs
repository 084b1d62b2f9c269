//! The CDI spec files of claims, recognized by their names.

use std::path::{Path, PathBuf};
use std::{fs, io};

use imex_cdi::{ClaimUid, Kind};

/// A claim's CDI spec file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClaimSpecFile {
    /// The claim, from the file's name.
    pub(crate) uid: ClaimUid,
    /// The file.
    pub(crate) path: PathBuf,
}

/// The claims' spec files in a directory, ascending by UID; none if there is no
/// such directory.
pub(crate) fn claim_specs_in(dir: &Path) -> io::Result<Vec<ClaimSpecFile>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(error),
    };
    let kind = Kind::compute_domain_claim();
    let mut found = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let uid = name.to_str();
        if let Some(uid) = uid.and_then(|name| ClaimUid::from_spec_file_name(&kind, name)) {
            let path = dir.join(name);
            found.push(ClaimSpecFile { uid, path });
        }
    }
    found.sort();
    Ok(found)
}
