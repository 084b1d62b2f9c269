//! Whether the driver is complete, and of one version.
//!
//! | id | severity | when |
//! |---|---|---|
//! | `nvml-*` (of [`NoLibrary`]) | error | there is no usable NVML library where drivers are installed |
//! | `nvidia-module-not-loaded` | error | there is a library, and no kernel module |
//! | `driver-version-mismatch` | error | library and kernel module are of two drivers: NVML refuses every call |

use std::path::{Path, PathBuf};

use nvml_clique::{DriverFileNotFound, NoLibrary, RejectReason, RejectedPath};

use crate::area::AreaReport;
use crate::facts::driver::{DriverFacts, KernelModule, MODULE_VERSION};
use crate::finding::Finding;

pub(super) fn check(facts: &DriverFacts) -> AreaReport {
    let finding = match (&facts.library, &facts.module) {
        (None, _) => facts.rejected.as_ref().map(missing_library),
        (Some(library), None) => Some(missing_module(library)),
        (Some(library), Some(module)) => version_mismatch(library, module),
    };
    AreaReport::new(summary(facts), finding.into_iter().collect())
}

/// The versions that are there, for people who compare hosts.
fn summary(facts: &DriverFacts) -> String {
    let module = match &facts.module {
        None => "module not loaded".to_owned(),
        Some(KernelModule { version: None }) => "module of unknown version".to_owned(),
        Some(KernelModule {
            version: Some(version),
        }) => format!("module {version}"),
    };
    match &facts.library {
        Some(library) => format!("{module}, {library}"),
        None => format!("{module}, no library"),
    }
}

fn missing_module(library: &str) -> Finding {
    Finding::error(
        "nvidia-module-not-loaded",
        "nvidia kernel module",
        format!("{library} exists and {MODULE_VERSION} does not"),
        "modprobe nvidia; if that fails, dmesg says why (secure boot, headers of another kernel)",
    )
}

/// After an upgrade of the packages the old module stays loaded until it is
/// reloaded. A library without a version in its name cannot be compared.
fn version_mismatch(library: &str, module: &KernelModule) -> Option<Finding> {
    let loaded = module.version.as_deref()?;
    let installed = library_version(Path::new(library))?;
    let starts_as_number = loaded.starts_with(|c: char| c.is_ascii_digit());
    (installed != loaded && starts_as_number).then(|| {
        Finding::error(
            "driver-version-mismatch",
            library,
            format!("the library is of driver {installed}, the loaded kernel module of {loaded}"),
            "reboot, or unload and load the nvidia modules, so that both are of one driver",
        )
    })
}

/// The evidence has a reason for each candidate that exists and was rejected, or
/// else every directory in which there was none.
fn missing_library(searched: &DriverFileNotFound) -> Finding {
    let unfit: Vec<String> = unfit(searched)
        .map(|it| format!("{} {}", it.path.display(), it.reason))
        .collect();
    let evidence = match unfit.as_slice() {
        [] => format!("none in {}", places(searched)),
        _ => unfit.join("; "),
    };
    let error = NoLibrary::from(searched.clone());
    Finding::error(error.code(), "libnvidia-ml.so.1", evidence, error.hint())
}

/// The directories of the root, and the roots of drivers within it.
fn places(searched: &DriverFileNotFound) -> String {
    let dirs = searched.rejected.iter().filter_map(|it| it.path.parent());
    let nested: Vec<PathBuf> = searched
        .nested
        .iter()
        .map(|it| searched.root.join(it))
        .collect();
    let dirs = dirs.filter(|dir| !nested.iter().any(|root| dir.starts_with(root)));
    let all = dirs.chain(nested.iter().map(PathBuf::as_path));
    let all: Vec<String> = all.map(|dir| dir.display().to_string()).collect();
    all.join(", ")
}

/// Candidates that exist and cannot be used; the root, if it is none.
fn unfit(error: &DriverFileNotFound) -> impl Iterator<Item = &RejectedPath> {
    let rejected = error.rejected.iter();
    rejected.filter(|it| it.reason != RejectReason::Missing || it.path == error.root)
}

/// `libnvidia-ml.so.580.82.07`, unless it is only called `libnvidia-ml.so.1`.
fn library_version(library: &Path) -> Option<&str> {
    let name = library.file_name()?.to_str()?;
    let version = name.strip_prefix("libnvidia-ml.so.")?;
    version.contains('.').then_some(version)
}

#[cfg(test)]
mod tests {
    use nvml_clique::DriverRoot;

    use super::*;

    fn facts(module: Option<&str>, library: Option<&str>) -> DriverFacts {
        DriverFacts {
            module: module.map(|version| KernelModule {
                version: Some(version.to_owned()),
            }),
            library: library.map(str::to_owned),
            rejected: None,
        }
    }

    #[test]
    fn module_and_library_are_of_one_driver() {
        let library = "/usr/lib64/libnvidia-ml.so.580.82.07";
        let ids = |facts: &DriverFacts| {
            let findings = check(facts).findings;
            findings.iter().map(|it| it.id).collect::<Vec<_>>()
        };
        let same = facts(Some("580.82.07"), Some(library));
        assert_eq!(ids(&same), [""; 0]);
        let other = facts(Some("570.1.1"), Some(library));
        assert_eq!(ids(&other), ["driver-version-mismatch"]);
        let plain = facts(Some("570.1.1"), Some("/lib/libnvidia-ml.so.1"));
        assert_eq!(ids(&plain), [""; 0]);
        let not_loaded = facts(None, Some(library));
        assert_eq!(ids(&not_loaded), ["nvidia-module-not-loaded"]);
    }

    #[test]
    fn a_root_that_does_not_exist_is_told_as_that() {
        let root = tempfile::tempdir().unwrap().path().join("none");
        let searched = DriverRoot::new(&root).find_library().unwrap_err();
        let evidence = format!("{} does not exist", root.display());
        assert_eq!(missing_library(&searched).evidence, evidence);
    }

    #[test]
    fn the_summary_has_both() {
        let summary = |facts: &DriverFacts| check(facts).summary;
        assert_eq!(
            summary(&DriverFacts::default()),
            "module not loaded, no library"
        );
        let both = facts(Some("580.1"), Some("/lib/libnvidia-ml.so.1"));
        assert_eq!(summary(&both), "module 580.1, /lib/libnvidia-ml.so.1");
    }
}
