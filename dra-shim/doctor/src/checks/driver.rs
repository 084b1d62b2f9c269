//! Checks that the driver is complete and of one version.
//!
//! | id | severity | when |
//! |---|---|---|
//! | `nvml-*` (of [`NoLibrary`]) | error, or info | there is no usable NVML library where drivers are installed; an info if nothing needs one, or if the loaded module shows that it is elsewhere |
//! | `nvidia-module-not-loaded` | error | there is a library, but no kernel module |
//! | `driver-version-mismatch` | error | library and kernel module have different versions: NVML refuses every call |
//! | `driver-too-old` | error | the kubelet plugin is driver-managed, but this driver's `nvidia-imex` does not accept host names |

use std::path::{Path, PathBuf};

use compute_domain_api::driver_managed::{DRIVER_TOO_OLD_HINT, driver_too_old};
use gpu_inventory::{Fact, Inventory};
use nvml_clique::{DriverFileNotFound, NoLibrary, RejectReason, RejectedPath, library_version};

use crate::diagnosis::AreaReport;
use crate::facts::driver::{DriverFacts, MODULE_VERSION, PCI_DEVICES};
use crate::finding::{Finding, Severity};

/// Signs that a host should have a driver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ExpectedBy {
    /// The kubelet plugin is on it.
    pub(super) plugin: bool,
    /// That plugin is driver-managed.
    pub(super) driver_managed: bool,
    /// Other NVIDIA software is on it.
    pub(super) tools: bool,
}

/// `expected_by`: signs, besides GPUs on the bus, that the host should have a driver.
pub(super) fn check(
    facts: &DriverFacts,
    inventory: &Inventory,
    expected_by: ExpectedBy,
) -> AreaReport {
    let library = facts.library.as_deref();
    let module = &inventory.driver.module;
    let finding = match (library, module) {
        (None, _) => {
            let searched = facts.rejected.as_ref();
            searched.map(|searched| missing_library(facts, inventory, searched, expected_by))
        }
        (Some(library), Fact::Absent) => Some(missing_module(library)),
        (Some(library), Fact::Known(loaded)) => version_mismatch(library, loaded),
        // The area of the GPUs reports it.
        (Some(_), Fact::Failed(_)) => None,
    };
    let too_old = || too_old(library, module.known());
    let too_old = expected_by.driver_managed.then(too_old).flatten();
    let findings = finding.into_iter().chain(too_old).collect();
    AreaReport::new(summary(library, module), findings)
}

/// The installed versions, for people who compare hosts.
fn summary(library: Option<&str>, module: &Fact<String>) -> String {
    let module = match module {
        Fact::Absent => "module not loaded".to_owned(),
        Fact::Failed(_) => "module of unknown version".to_owned(),
        Fact::Known(version) => format!("module {version}"),
    };
    match library {
        Some(library) => format!("{module}, {library}"),
        None => format!("{module}, no library"),
    }
}

fn missing_module(library: &str) -> Finding {
    Finding::error(
        "nvidia-module-not-loaded",
        "nvidia kernel module",
        format!("{library} exists, but {MODULE_VERSION} does not"),
        "modprobe nvidia; if that fails, see dmesg (possible causes: Secure Boot, headers of another kernel)",
    )
}

/// After a package upgrade, the old module stays loaded until it is reloaded. A library
/// without a version in its name cannot be compared.
fn version_mismatch(library: &str, loaded: &str) -> Option<Finding> {
    let installed = library_version(Path::new(library))?;
    (installed != loaded).then(|| {
        Finding::error(
            "driver-version-mismatch",
            library,
            format!("the library has version {installed}, but the kernel module has {loaded}"),
            "reboot, or reload the nvidia modules, so that both have the same version",
        )
    })
}

/// IMEX daemons get a list of host names, which old drivers do not accept.
fn too_old(library: Option<&str>, loaded: Option<&String>) -> Option<Finding> {
    let installed = || library_version(Path::new(library?));
    let version = loaded.map(String::as_str).or_else(installed)?;
    let evidence = driver_too_old(version)?;
    Some(Finding::error(
        "driver-too-old",
        "NVIDIA driver",
        evidence,
        DRIVER_TOO_OLD_HINT,
    ))
}

/// The evidence has the reason for each existing candidate that was rejected. Without such
/// candidates, it has the directories that were searched.
fn missing_library(
    facts: &DriverFacts,
    inventory: &Inventory,
    searched: &DriverFileNotFound,
    expected_by: ExpectedBy,
) -> Finding {
    let unusable_candidates: Vec<String> = unusable_candidates(searched)
        .map(|it| format!("{} {}", it.path.display(), it.reason))
        .collect();
    let evidence = match unusable_candidates.as_slice() {
        [] => format!("not found in {}", places(searched)),
        _ => unusable_candidates.join("; "),
    };
    let error = NoLibrary::from(searched.clone());
    let is_expected = expected_by.plugin || !unusable_candidates.is_empty();
    let gpus = inventory.gpus.iter();
    let (passed_through, own): (Vec<_>, Vec<_>) = gpus.partition(|gpu| gpu.is_passed_through());
    let module_is_loaded = inventory.driver.module != Fact::Absent;
    let (severity, evidence, fix) = match (own.len(), passed_through.len()) {
        _ if is_expected => (Severity::Error, evidence, error.hint().to_owned()),
        _ if module_is_loaded => (
            Severity::Info,
            format!("the module is loaded, but the library was {evidence}"),
            "set the driver's directory with `--driver-root` (cdi-gen doctor) or nvidiaDriverRoot (the chart)".to_owned(),
        ),
        (0, 0) if facts.pci_is_listed => (
            Severity::Info,
            "no NVIDIA GPU is on the PCI bus, and no driver is installed".to_owned(),
            "none needed; if the host should have a GPU, check with `lspci -d 10de:` and dmesg whether the kernel sees the GPU".to_owned(),
        ),
        (0, passed_through @ 1..) => (
            Severity::Info,
            format!("no driver is installed, and the host's NVIDIA GPUs ({passed_through}) are passed through to virtual machines (vfio-pci)"),
            "none needed; containers on this host get no GPU".to_owned(),
        ),
        (0, 0) if !expected_by.tools => (
            Severity::Info,
            format!("this host has no NVIDIA software, and {PCI_DEVICES} does not show whether the host has a GPU; the library was {evidence}"),
            format!("none needed if the host has no GPU; if the host has a GPU: {}", error.hint()),
        ),
        _ => (Severity::Error, evidence, error.hint().to_owned()),
    };
    Finding::new(severity, error.code(), "libnvidia-ml.so.1", evidence, fix)
}

/// The searched directories of the root, and the driver roots nested in it.
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

/// Candidates that exist but cannot be used, and the root itself if it was rejected.
fn unusable_candidates(error: &DriverFileNotFound) -> impl Iterator<Item = &RejectedPath> {
    let rejected = error.rejected.iter();
    rejected.filter(|it| it.reason != RejectReason::Missing || it.path == error.root)
}

#[cfg(test)]
mod tests {
    use gpu_inventory::{Failure, GpuFacts};
    use nvml_clique::DriverRoot;

    use super::*;

    fn facts(library: Option<&str>) -> DriverFacts {
        DriverFacts {
            library: library.map(str::to_owned),
            ..DriverFacts::default()
        }
    }

    fn with_module(version: Option<&str>) -> Inventory {
        let mut inventory = Inventory::default();
        inventory.driver.module =
            version.map_or(Fact::Absent, |version| Fact::Known(version.to_owned()));
        inventory
    }

    fn ids(library: &str, inventory: &Inventory, expected_by: ExpectedBy) -> Vec<&'static str> {
        let findings = check(&facts(Some(library)), inventory, expected_by).findings;
        findings.iter().map(|it| it.id).collect()
    }

    #[test]
    fn module_and_library_must_have_one_version() {
        let library = "/usr/lib64/libnvidia-ml.so.580.82.07";
        let ids = |library, module| ids(library, &with_module(module), ExpectedBy::default());
        assert_eq!(ids(library, Some("580.82.07")), [""; 0]);
        assert_eq!(ids(library, Some("570.1.1")), ["driver-version-mismatch"]);
        assert_eq!(ids("/lib/libnvidia-ml.so.1", Some("570.1.1")), [""; 0]);
        assert_eq!(ids(library, None), ["nvidia-module-not-loaded"]);
    }

    // req: DOCTOR-4
    #[test]
    fn a_module_whose_version_cannot_be_read_is_loaded() {
        let mut inventory = Inventory::default();
        let failure = Failure::new(MODULE_VERSION, "cannot be read");
        inventory.driver.module = Fact::Failed(failure);
        let library = "/usr/lib64/libnvidia-ml.so.580.82.07";
        assert_eq!(ids(library, &inventory, ExpectedBy::default()), [""; 0]);
        let report = check(&facts(Some(library)), &inventory, ExpectedBy::default());
        let expected = format!("module of unknown version, {library}");
        assert_eq!(report.summary, expected);
    }

    #[test]
    fn a_driver_without_host_names_is_too_old_for_driver_managed_imex() {
        let ids = |version, driver_managed| {
            let expected_by = ExpectedBy {
                driver_managed,
                ..ExpectedBy::default()
            };
            let inventory = with_module(Some(version));
            ids("/lib/libnvidia-ml.so.1", &inventory, expected_by)
        };
        assert_eq!(ids("550.163.01", true), ["driver-too-old"]);
        assert_eq!(ids("550.163.01", false), [""; 0]);
        assert_eq!(ids("570.158.01", true), [""; 0]);
    }

    #[test]
    fn a_missing_driver_root_is_reported_as_missing() {
        let root = tempfile::tempdir().unwrap().path().join("none");
        let searched = DriverRoot::new(&root).find_library().unwrap_err();
        let plugin = ExpectedBy {
            plugin: true,
            ..ExpectedBy::default()
        };
        let found = missing_library(
            &DriverFacts::default(),
            &Inventory::default(),
            &searched,
            plugin,
        );
        assert_eq!(found.evidence, format!("{} does not exist", root.display()));
    }

    #[test]
    fn a_missing_driver_is_an_error_only_on_hosts_that_need_one() {
        use Severity::{Error, Info};
        let root = tempfile::tempdir().unwrap();
        let severity = |module, gpus: Option<(usize, usize)>, plugin, tools| {
            let facts = DriverFacts {
                rejected: DriverRoot::new(root.path()).find_library().err(),
                pci_is_listed: gpus.is_some(),
                ..DriverFacts::default()
            };
            let (own, passed_through) = gpus.unwrap_or_default();
            let gpu = |driver: &str| GpuFacts {
                pci_driver: Fact::Known(driver.to_owned()),
                ..GpuFacts::default()
            };
            let mut inventory = with_module(module);
            inventory.gpus.extend(vec![gpu("nvidia"); own]);
            inventory.gpus.extend(vec![gpu("vfio-pci"); passed_through]);
            let expected_by = ExpectedBy {
                plugin,
                tools,
                driver_managed: false,
            };
            let found = check(&facts, &inventory, expected_by).findings;
            assert_eq!(found.len(), 1);
            found[0].severity
        };

        for (module, gpus, plugin, tools, expected) in [
            (None, Some((0, 0)), false, true, Info),
            (None, Some((0, 2)), false, true, Info),
            (None, Some((1, 1)), false, false, Error),
            (None, None, false, false, Info),
            (None, None, false, true, Error),
            (Some("570.1"), Some((1, 0)), false, true, Info),
            (Some("570.1"), Some((1, 0)), true, false, Error),
            (None, Some((0, 0)), true, false, Error),
        ] {
            let found = severity(module, gpus, plugin, tools);
            assert_eq!(found, expected, "{module:?} {gpus:?} {plugin} {tools}");
        }
    }

    #[test]
    fn the_summary_has_module_and_library() {
        let summary = |library, module| {
            check(&facts(library), &with_module(module), ExpectedBy::default()).summary
        };
        assert_eq!(summary(None, None), "module not loaded, no library");
        assert_eq!(
            summary(Some("/lib/libnvidia-ml.so.1"), Some("580.1")),
            "module 580.1, /lib/libnvidia-ml.so.1"
        );
    }
}
