//! The CDI specs of claims, by their files' names.

use std::path::{Path, PathBuf};
use std::{fs, io};

use imex_cdi::{ClaimUid, Kind};

/// A claim's spec.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SpecOfClaim {
    pub(crate) uid: ClaimUid,
    pub(crate) path: PathBuf,
}

/// The claims' specs in a directory, ascending by UID; none if there is no
/// such directory.
pub(crate) fn of_dir(dir: &Path) -> io::Result<Vec<SpecOfClaim>> {
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
        if let Some(uid) = uid.and_then(|name| ClaimUid::of_spec_file(&kind, name)) {
            let path = dir.join(name);
            found.push(SpecOfClaim { uid, path });
        }
    }
    found.sort();
    Ok(found)
}
