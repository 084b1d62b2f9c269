//! The time since when a claim holds its device: that of its CDI spec's file. The file is written
//! before the claim is prepared, and again only if it was lost.

use std::fs;
use std::path::Path;

use dra_kubelet::ClaimError;
use imex_cdi::{ClaimUid, Kind};
use jiff::Timestamp;

/// Adds the time since when `holder` has the device to the error of a claim that needs it, if the
/// holder's spec of this kind exists. Blocks: reads a directory entry.
pub fn with_prepared_at(
    error: ClaimError,
    cdi_root: &Path,
    kind: &Kind,
    holder: &str,
) -> ClaimError {
    let Some(since) = prepared_at(cdi_root, kind, holder) else {
        return error;
    };
    // A time, not an age: repeats of the event must have the same text.
    let message = format!("{} (prepared there at {since:.0})", error.message());
    ClaimError::new(error.class(), message).with_code(error.code())
}

fn prepared_at(cdi_root: &Path, kind: &Kind, claim: &str) -> Option<Timestamp> {
    let name = ClaimUid::new(claim).ok()?.spec_file_name(kind);
    let written = fs::metadata(cdi_root.join(name)).ok()?.modified().ok()?;
    Timestamp::try_from(written).ok()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn the_time_of_the_holders_spec_is_added_if_the_spec_exists() {
        let dir = tempfile::tempdir().unwrap();
        let error = || ClaimError::retry("held by ns/a:a").with_code("device-held");
        let add = || with_prepared_at(error(), dir.path(), &Kind::compute_domain_claim(), "a");
        assert_eq!(add(), error());
        let path = dir
            .path()
            .join("k8s.compute-domain.nvidia.com-claim_a.yaml");
        let at = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        fs::File::create(path).unwrap().set_modified(at).unwrap();
        let with_time = add();
        assert_eq!(
            with_time.message(),
            "held by ns/a:a (prepared there at 2027-01-15T08:00:00Z)"
        );
        assert_eq!(with_time.code(), "device-held");
    }
}
