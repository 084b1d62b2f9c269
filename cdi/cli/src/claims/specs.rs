//! The CDI specs of claims, by their files' names.

use std::path::{Path, PathBuf};
use std::{fs, io};

use imex_cdi::{ClaimUid, Kind};

/// What ends the name of a claim's spec, as the plugin writes it.
const EXTENSION: &str = ".yaml";

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
    let mut found = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        if let Some(uid) = name.to_str().and_then(uid_of) {
            let path = dir.join(name);
            found.push(SpecOfClaim { uid, path });
        }
    }
    found.sort();
    Ok(found)
}

/// The claim whose spec has this file name; `None` of any other file.
pub(crate) fn uid_of(name: &str) -> Option<ClaimUid> {
    let kind = Kind::compute_domain_claim();
    let rest = name.strip_prefix(&format!("{}-{}_", kind.vendor(), kind.class()))?;
    ClaimUid::new(rest.strip_suffix(EXTENSION)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_plugins_own_names_are_claims() {
        let name = "k8s.compute-domain.nvidia.com-claim_0a-1b.yaml";
        assert_eq!(uid_of(name), Some(ClaimUid::new("0a-1b").unwrap()));
        for other in [
            "k8s.compute-domain.nvidia.com-claim_0a-1b.json",
            "k8s.compute-domain.nvidia.com-claim_.yaml",
            "k8s.compute-domain.nvidia.com-device_base.yaml",
            "k8s.gpu.nvidia.com-claim_0a-1b.yaml",
            ".k8s.compute-domain.nvidia.com-claim_0a-1b.yaml",
        ] {
            assert_eq!(uid_of(other), None, "{other}");
        }
    }
}
