//! The NVIDIA driver: its kernel module and its library.

use std::path::Path;

use nvml_clique::{DriverFileNotFound, DriverRoot, NoLibrary, RejectReason, RejectedPath};

use crate::area::AreaReport;
use crate::files::HostFiles;
use crate::finding::Finding;

const MODULE: &str = "/proc/driver/nvidia/version";

/// Where a driver is installed: on the host, or by the driver container.
const ROOTS: [&str; 2] = ["/", "/run/nvidia/driver"];

/// The driver as far as it is there.
#[derive(Debug)]
pub(super) struct Driver {
    /// Of the loaded kernel module.
    pub(super) module: Option<String>,
    /// The root that has a library.
    pub(super) root: Option<DriverRoot>,
}

/// Looks for it; the findings are of what is not there.
pub(super) fn check(files: &HostFiles) -> (Driver, AreaReport) {
    let text = files.text_if_any(MODULE);
    let module = text.as_deref().map(|text| {
        let version = text.lines().next().and_then(module_version);
        version.unwrap_or("of unknown version").to_owned()
    });
    let mut missing = Vec::new();
    let mut found = None;
    for root in ROOTS {
        let root = DriverRoot::new(files.behind(root));
        match root.find_library() {
            Ok(library) => {
                found = Some((root, library));
                break;
            }
            Err(error) => missing.push(error),
        }
    }
    let findings = findings(files, module.as_deref(), found.as_ref(), &missing);
    let summary = summary(files, module.as_deref(), found.as_ref());
    let driver = Driver {
        module,
        root: found.map(|(root, _)| root),
    };
    (driver, AreaReport::new(summary, findings))
}

type Found = (DriverRoot, std::path::PathBuf);

fn summary(files: &HostFiles, module: Option<&str>, found: Option<&Found>) -> String {
    let module = module.map_or_else(
        || "module not loaded".to_owned(),
        |it| format!("module {it}"),
    );
    match found {
        Some((_, library)) => format!("{module}, {}", files.host_name(library)),
        None => format!("{module}, no library"),
    }
}

fn findings(
    files: &HostFiles,
    module: Option<&str>,
    found: Option<&Found>,
    missing: &[DriverFileNotFound],
) -> Vec<Finding> {
    let Some((_, library)) = found else {
        return no_library(files, missing).into_iter().collect();
    };
    let Some(module) = module else {
        return vec![Finding::error(
            "nvidia-module-not-loaded",
            "nvidia kernel module",
            format!("{} is there and {MODULE} is not", files.host_name(library)),
            "modprobe nvidia; if that fails, dmesg says why (secure boot, headers of another kernel)",
        )];
    };
    let versions = library_version(library).filter(|library| *library != module);
    let starts_as_number = module.starts_with(|c: char| c.is_ascii_digit());
    let mismatch = versions.filter(|_| starts_as_number).map(|version| {
        Finding::error(
            "driver-version-mismatch",
            files.host_name(library),
            format!("the library is of driver {version}, the loaded kernel module of {module}"),
            "reboot, or unload and load the nvidia modules, so that both are of one driver",
        )
    });
    mismatch.into_iter().collect()
}

/// The library is nowhere: each candidate that would not do says why. A driver
/// container that does not run is no news beside a driver on the host.
fn no_library(files: &HostFiles, missing: &[DriverFileNotFound]) -> Option<Finding> {
    let telling = missing.iter().max_by_key(|error| unfit(error).count())?;
    let unfit: Vec<String> = missing
        .iter()
        .flat_map(unfit)
        .map(|it| format!("{} {}", files.host_name(&it.path), it.reason))
        .collect();
    let why = match unfit.as_slice() {
        [] => format!(
            "none in the {} usual places below {}",
            missing.iter().map(|it| it.rejected.len()).max()?,
            ROOTS.join(" and below ")
        ),
        _ => unfit.join("; "),
    };
    let error = NoLibrary::from(telling.clone());
    Some(Finding::error(
        error.code(),
        "libnvidia-ml.so.1",
        why,
        error.hint(),
    ))
}

fn unfit(error: &DriverFileNotFound) -> impl Iterator<Item = &RejectedPath> {
    let rejected = error.rejected.iter();
    rejected.filter(|it| it.reason != RejectReason::Missing)
}

/// `NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.82.07  Mon Aug ...`.
fn module_version(line: &str) -> Option<&str> {
    line.split_whitespace().find(|word| {
        let digits = word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        digits && word.contains('.')
    })
}

/// `libnvidia-ml.so.580.82.07`, unless it is only called `libnvidia-ml.so.1`.
fn library_version(library: &Path) -> Option<&str> {
    let name = library.file_name()?.to_str()?;
    let version = name.strip_prefix("libnvidia-ml.so.")?;
    version.contains('.').then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_where_the_driver_has_them() {
        let line =
            "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.82.07  Release Build";
        assert_eq!(module_version(line), Some("580.82.07"));
        assert_eq!(module_version("NVRM version: unknown"), None);
        let library = Path::new("/usr/lib64/libnvidia-ml.so.580.82.07");
        assert_eq!(library_version(library), Some("580.82.07"));
        assert_eq!(library_version(Path::new("/a/libnvidia-ml.so.1")), None);
    }
}
