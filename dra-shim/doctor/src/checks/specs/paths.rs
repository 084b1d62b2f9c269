//! What specs mount and run, and the host does not have.

use crate::facts::specs::SpecFileFacts;
use crate::finding::Finding;
use crate::spec_paths::rewrite_fix;
use crate::text::and_more;

/// Once for each file: an update of the driver takes all libraries of the old one away.
pub(super) fn check(file: &SpecFileFacts, driver_version: Option<&str>) -> Option<Finding> {
    let (first, others) = file.missing_paths.split_first()?;
    let spec = file.spec.as_ref().ok()?;
    let old = file.missing_paths.iter().find_map(|it| {
        let old = library_version(&it.path)?;
        let loaded = driver_version?;
        (old != loaded).then(|| format!("; the spec is of driver {old}, and {loaded} is loaded"))
    });
    Some(Finding::error(
        "cdi-spec-path-missing",
        &file.path,
        format!(
            "{}{}: no container is created with it{}",
            first.message(),
            and_more(others.len()),
            old.unwrap_or_default()
        ),
        rewrite_fix(spec, &file.path),
    ))
}

/// `570.172.08` of `libcuda.so.570.172.08`.
fn library_version(path: &str) -> Option<&str> {
    let (_, version) = path.rsplit_once(".so.")?;
    let is_number = |part: &str| part.len() > 1 && part.bytes().all(|it| it.is_ascii_digit());
    // A driver's, and not the library's own, as `libnvidia-egl-gbm.so.1.1.2`.
    let is_drivers = version.contains('.') && version.split('.').all(is_number);
    is_drivers.then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_has_the_drivers_version_or_one_of_its_own() {
        for (path, version) in [
            ("/usr/lib/libcuda.so.570.172.08", Some("570.172.08")),
            ("/usr/lib/libcuda.so.1", None),
            ("/usr/lib/libnvidia-egl-gbm.so.1.1.2", None),
            ("/usr/bin/nvidia-smi", None),
        ] {
            assert_eq!(library_version(path), version, "{path}");
        }
    }
}
