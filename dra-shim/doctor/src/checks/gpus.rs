//! Checks each GPU of an inventory.
//!
//! | id | severity | when |
//! |---|---|---|
//! | `nvidia-module-not-loaded` | error | there are GPUs that are not passed through, but no kernel module |
//! | `gpu-nvml-failed` | error | NVML has no facts at all |
//! | `driver-version-mismatch` | error | NVML and the kernel module have different versions |
//! | `driver-unreadable` | warning | the driver's versions or majors cannot be read |
//! | `gpu-passed-through` | info | a GPU is bound to a vfio driver |
//! | `gpu-without-driver` | error | no kernel driver is bound to a GPU |
//! | `gpu-other-driver` | error | another kernel driver is bound to a GPU, such as nouveau |
//! | `gpu-not-enumerated` | error | the driver is bound to a GPU, but NVML does not enumerate it |
//! | `gpu-without-identity` | error | a GPU has no minor or UUID, or shares one with another GPU: no container can get it; an info if NVML, which may have them, was not called or fails as a whole |
//! | `gpu-unreadable` | warning | other properties of a GPU cannot be read |
//! | `gpu-needs-recovery` | error | the driver requires a reset or a reboot for a GPU |
//! | `gpu-mig-pending` | warning | MIG mode changes at the next reset |
//! | `mig-device-unusable` | info | DRA drivers do not publish a MIG device, but containers can use it |
//! | `gpu-mig-without-devices` | info | a GPU is in MIG mode and has no MIG devices, so no container can get a part of it |
//! | `driver-library-missing`, `driver-version-mixed`, `driver-file-unusable`, `driver-path-odd` (of [`nvidia_driver_files`]) | warning | a file of the driver that containers get is missing or wrong |
//! | `gpu-common-node-missing` | error with the GPU plugin, otherwise info | a device node that every container with a GPU needs has no major |
//!
//! [`check`] leaves out what other areas report. The last two rows are only in [`check`].

use gpu_inventory::published::{identity, label, published};
use gpu_inventory::{Fact, Failure, GpuFacts, Inventory, common_nodes, recovery_action};
use imex_cdi::PROC_DEVICES;
use nvml_clique::{Fabric, GpuFabricState, Pending};

use crate::diagnosis::AreaReport;
use crate::facts::driver::{ContainerFiles, MODULE_VERSION};
use crate::finding::{Finding, Severity};
use crate::text::{and_more, counted};

/// What the findings of other areas say, so that each cause is reported once.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reported<'a> {
    /// There is no usable library.
    missing_library: bool,
    /// Library and module have different versions.
    version_mismatch: bool,
    /// `/proc/devices` cannot be used.
    device_list: bool,
    /// What the fabric's area says about NVML.
    fabric: Option<&'a Fabric>,
}

// === impl Reported ===

// req: DOCTOR-13
impl<'a> Reported<'a> {
    pub(super) fn new(
        driver: &AreaReport,
        fabric: Option<&'a Fabric>,
        channels: &AreaReport,
    ) -> Self {
        let has = |report: &AreaReport, is_it: fn(&Finding) -> bool| {
            let mut findings = report.findings.iter();
            findings.any(is_it)
        };
        Self {
            missing_library: has(driver, |it| it.id.starts_with("nvml-")),
            version_mismatch: has(driver, |it| it.id == VERSION_MISMATCH),
            device_list: has(channels, |it| it.subject == PROC_DEVICES),
            fabric,
        }
    }

    fn nvml_fails(&self) -> bool {
        let fails = |fabric: &Fabric| {
            use Fabric::{NoAnswer, NoLibrary, NvmlFailed};
            matches!(fabric, NoLibrary(_) | NvmlFailed(_) | NoAnswer { .. })
        };
        self.missing_library || self.fabric.is_some_and(fails)
    }

    /// Whether NVML's failure on this GPU is reported.
    fn fails_on(&self, gpu: &GpuFacts) -> bool {
        match self.fabric {
            Some(Fabric::NoAnswer { .. }) => hanging_call(gpu).is_some(),
            Some(Fabric::Pending(Pending::IncompleteRegistration { worst, others, .. })) => {
                [worst].into_iter().chain(others).any(|it| {
                    matches!(it.state, GpuFabricState::Unreadable(_))
                        && gpu.index == Fact::Known(it.gpu.index)
                })
            }
            _ => false,
        }
    }
}

/// The beginning of the reason of a call that was not made. Its cause follows.
const NOT_CALLED: &str = "was not called, because ";

const VERSION_MISMATCH: &str = "driver-version-mismatch";

/// The id of the finding for a GPU that a container cannot get, whatever its severity.
pub const GPU_WITHOUT_IDENTITY: &str = "gpu-without-identity";

/// Checks the GPUs, and what containers with GPUs need, apart from what is reported. `gives_gpus`: the GPU plugin is on
/// the host.
// req: DOCTOR-16
pub(super) fn check(
    inventory: &Inventory,
    files: Option<&ContainerFiles>,
    reported: Reported<'_>,
    gives_gpus: bool,
) -> AreaReport {
    // The area of the driver has a finding.
    if inventory.driver.module == Fact::Absent {
        return AreaReport::skipped("not examined: the nvidia module is not loaded");
    }
    let mut findings = findings(inventory, reported);
    if inventory.gpus.iter().any(|gpu| !gpu.is_passed_through()) {
        // The module's version has no files if another version is installed.
        let is_mismatch = |it: &Finding| it.id == VERSION_MISMATCH;
        let is_mismatched = reported.version_mismatch || findings.iter().any(is_mismatch);
        findings.extend(missing_common_node(inventory, gives_gpus));
        findings.extend(bad_files(files.filter(|_| !is_mismatched)));
    }
    AreaReport::new(summary(inventory), findings)
}

/// Without majors at all, another finding has the reason.
fn missing_common_node(inventory: &Inventory, gives_gpus: bool) -> Option<Finding> {
    inventory.host.majors.known()?;
    let error = common_nodes(&inventory.host).err()?;
    let severity = if gives_gpus {
        Severity::Error
    } else {
        // A module may be loaded at its first use.
        Severity::Info
    };
    Some(Finding::new(
        severity,
        "gpu-common-node-missing",
        PROC_DEVICES,
        format!("{error}, so no container can get a GPU"),
        "load the driver's modules: modprobe nvidia; nvidia-modprobe -u",
    ))
}

fn bad_files(files: Option<&ContainerFiles>) -> Vec<Finding> {
    let problems = files.into_iter().flat_map(|files| {
        let subject = format!("driver root {}", files.root);
        let problems = files.problems.iter();
        problems.map(move |problem| Finding::of(Severity::Warning, &subject, problem))
    });
    problems.collect()
}

/// The numbers of GPUs and MIG devices, and of GPUs that cannot be read, which another area may report.
fn summary(inventory: &Inventory) -> String {
    let gpus = &inventory.gpus;
    if gpus.is_empty() {
        return "none".to_owned();
    }
    let mig = gpus.iter().filter_map(|gpu| gpu.mig.known());
    let mig = mig.flat_map(|mig| mig.devices.iter().filter_map(Fact::known));
    let unreadable = gpus.iter().filter(|gpu| gpu.failures().next().is_some());
    let (mig, unreadable) = (mig.count(), unreadable.count());
    let mut parts = vec![counted(gpus.len(), "GPU")];
    if mig > 0 {
        parts.push(counted(mig, "MIG device"));
    }
    if unreadable > 0 {
        parts.push(format!("{unreadable} unreadable"));
    }
    parts.join(", ")
}

/// The first call of NVML that does not return, with its GPU, and the number of other such GPUs.
pub(super) fn hanging(inventory: &Inventory) -> Option<String> {
    let gpus = inventory.gpus.iter();
    let mut hanging = gpus.filter_map(|gpu| Some((gpu, hanging_call(gpu)?)));
    let (gpu, call) = hanging.next()?;
    Some(format!(
        "{}: {}{}",
        subject(gpu),
        cause(call),
        and_more(hanging.count())
    ))
}

/// A call that did not return, or one that was not made because of it.
fn hanging_call(gpu: &GpuFacts) -> Option<&Failure> {
    gpu.failures()
        .find(|failure| failure.reason.contains("did not return"))
}

/// The problems of a host's GPUs, causes first.
pub fn gpu_findings(inventory: &Inventory) -> Vec<Finding> {
    findings(inventory, Reported::default())
}

fn findings(inventory: &Inventory, reported: Reported<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = [
        missing_module(inventory),
        failed_nvml(inventory).filter(|_| !reported.nvml_fails()),
        version_mismatch(inventory).filter(|_| !reported.version_mismatch),
        unreadable_driver(inventory, reported),
    ]
    .into_iter()
    .flatten()
    .collect();
    let nvml_works = inventory.driver.gpu_count.known().is_some();
    for gpu in &inventory.gpus {
        match gpu.index.known() {
            Some(_) => findings.extend(enumerated(inventory, gpu, reported)),
            None => findings.extend(not_enumerated(inventory, gpu, nvml_works)),
        }
    }
    findings
}

fn missing_module(inventory: &Inventory) -> Option<Finding> {
    let gpus = inventory.gpus.iter().filter(|gpu| !gpu.is_passed_through());
    let count = gpus.count();
    (inventory.driver.module == Fact::Absent && count > 0).then(|| {
        Finding::error(
            "nvidia-module-not-loaded",
            "nvidia kernel module",
            format!("this host has {}, but {MODULE_VERSION} does not exist", counted(count, "GPU")),
            "modprobe nvidia; if that fails, see dmesg (possible causes: Secure Boot, headers of another kernel)",
        )
    })
}

fn failed_nvml(inventory: &Inventory) -> Option<Finding> {
    let failure = inventory.driver.gpu_count.failure()?;
    let is_needed = inventory.gpus.iter().any(|gpu| !gpu.is_passed_through());
    is_needed.then(|| {
        Finding::error(
            "gpu-nvml-failed",
            "NVML",
            failure.to_string(),
            fix_of(failure),
        )
    })
}

fn version_mismatch(inventory: &Inventory) -> Option<Finding> {
    let module = inventory.driver.module.known()?;
    let nvml = inventory.driver.nvml.known()?;
    (module != nvml).then(|| {
        Finding::error(
            VERSION_MISMATCH,
            "NVML",
            format!("NVML has version {nvml}, but the kernel module has {module}"),
            "reboot, or reload the nvidia modules, so that both have the same version",
        )
    })
}

/// Versions and majors. A failure of NVML as a whole is a finding of its own.
fn unreadable_driver(inventory: &Inventory, reported: Reported<'_>) -> Option<Finding> {
    let driver = &inventory.driver;
    let nvml_works = driver.gpu_count.known().is_some();
    let of_nvml = [driver.nvml.failure(), driver.cuda.failure()];
    let of_nvml = of_nvml.into_iter().filter(|_| nvml_works);
    let majors = inventory.host.majors.failure();
    let of_files = [
        driver.module.failure(),
        majors.filter(|_| !reported.device_list),
    ];
    let failures: Vec<&Failure> = of_files.into_iter().chain(of_nvml).flatten().collect();
    let first = failures.first()?;
    let texts: Vec<String> = failures.iter().map(ToString::to_string).collect();
    Some(Finding::warning(
        "driver-unreadable",
        "NVIDIA driver",
        texts.join("; "),
        fix_of(first),
    ))
}

fn not_enumerated(inventory: &Inventory, gpu: &GpuFacts, nvml_works: bool) -> Option<Finding> {
    let subject = subject(gpu);
    let bound = gpu.pci_driver.known().map(String::as_str);
    // Without sysfs: only the driver has a minor for a GPU.
    let driver = bound.or_else(|| gpu.minor.known().map(|_| "nvidia"));
    match driver {
        Some(driver) if gpu.is_passed_through() => Some(Finding::info(
            "gpu-passed-through",
            subject,
            format!("the driver {driver} is bound to this GPU"),
            "nothing, if a virtual machine uses the GPU; otherwise bind the driver nvidia",
        )),
        // The finding about the module says why.
        _ if inventory.driver.module == Fact::Absent => None,
        None => Some(Finding::error(
            "gpu-without-driver",
            subject,
            "no kernel driver is bound to this GPU",
            "see dmesg for lines of NVRM about this address; then reload the nvidia module, or write the address to /sys/bus/pci/drivers/nvidia/bind",
        )),
        Some("nvidia") if nvml_works => Some(Finding::error(
            "gpu-not-enumerated",
            subject,
            "the driver nvidia has this GPU, but NVML does not enumerate it",
            "see dmesg for lines of NVRM and Xid about this address; then reset the GPU (nvidia-smi --gpu-reset) or reboot",
        )),
        // NVML fails as a whole, or was not called: what the driver's files have is left.
        Some("nvidia") => without_identity(inventory, gpu),
        Some(driver) => Some(Finding::error(
            "gpu-other-driver",
            subject,
            format!("the driver {driver} is bound to this GPU"),
            format!(
                "unload {driver}, and keep it from loading (/etc/modprobe.d); then load nvidia"
            ),
        )),
    }
}

fn enumerated(inventory: &Inventory, gpu: &GpuFacts, reported: Reported<'_>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = without_identity(inventory, gpu).into_iter().collect();
    let identity = findings.first().map(|it| it.evidence.clone());
    if findings.is_empty() {
        findings.extend(unusable_mig_devices(inventory, gpu));
        findings.extend(without_mig_devices(gpu));
    }
    if !reported.fails_on(gpu) {
        findings.extend(unreadable(gpu, &identity.unwrap_or_default()));
    }
    findings.extend(recovery(gpu));
    findings.extend(pending_mig(gpu));
    findings
}

/// Before the driver has initialised a GPU, its files have no UUID, but NVML initialises the GPU.
fn without_identity(inventory: &Inventory, gpu: &GpuFacts) -> Option<Finding> {
    let reason = identity(inventory, gpu).err()?;
    let nvml_works = inventory.driver.gpu_count.known().is_some();
    let is_complete = gpu.minor.known().is_some() && gpu.uuid.known().is_some();
    if !nvml_works && !is_complete {
        return Some(Finding::info(
            GPU_WITHOUT_IDENTITY,
            subject(gpu),
            format!("without NVML, {reason}"),
            "run cdi-gen on the host itself, without --root: NVML has this property",
        ));
    }
    Some(Finding::error(
        GPU_WITHOUT_IDENTITY,
        subject(gpu),
        reason,
        "see dmesg for lines of NVRM and Xid; then reset the GPU (nvidia-smi --gpu-reset) or reboot",
    ))
}

/// The MIG devices that are not published. Those that cannot be read are left out: their failures are reported.
fn unusable_mig_devices(inventory: &Inventory, gpu: &GpuFacts) -> Vec<Finding> {
    let mut gpu = gpu.clone();
    let Fact::Known(mig) = &mut gpu.mig else {
        return Vec::new();
    };
    mig.devices.retain(|device| device.known().is_some());
    if mig.devices.is_empty() || mig.profiles.failure().is_some() {
        return Vec::new();
    }
    let name = subject(&gpu);
    let one = Inventory {
        gpus: vec![gpu],
        ..inventory.clone()
    };
    let skipped = published(&one).skipped.into_iter().map(|skipped| {
        Finding::info(
            "mig-device-unusable",
            &name,
            format!("{}: DRA drivers do not publish it", skipped.reason),
            "nothing, if no claim is to get it; otherwise delete the MIG device and create one whose compute instance has all slices",
        )
    });
    skipped.collect()
}

/// A GPU whose MIG mode changes at the next reset has a finding of its own.
fn without_mig_devices(gpu: &GpuFacts) -> Option<Finding> {
    let mig = gpu.mig.known()?;
    let is_empty = mig.enabled && mig.pending && mig.devices.is_empty();
    is_empty.then(|| {
        Finding::info(
            "gpu-mig-without-devices",
            subject(gpu),
            "this GPU is in MIG mode and has no MIG devices: no container can get it or a part of it",
            "create MIG devices (nvidia-smi mig -cgi PROFILE -C), or turn MIG mode off (nvidia-smi -mig 0)",
        )
    })
}

/// The failures that are not in `reported`, the evidence of another finding.
fn unreadable(gpu: &GpuFacts, reported: &str) -> Option<Finding> {
    let mut failures = failures(gpu);
    failures.retain(|failure| !reported.contains(&failure.to_string()));
    let first = failures.first()?;
    let texts: Vec<String> = failures.iter().map(cause).collect();
    Some(Finding::warning(
        "gpu-unreadable",
        subject(gpu),
        texts.join("; "),
        fix_of(first),
    ))
}

/// The failures of a GPU's facts. Those of calls that were not made are left out: the first failure is their cause. One
/// is kept if its cause is no failure, because a file has the fact.
fn failures(gpu: &GpuFacts) -> Vec<Failure> {
    let mut failures: Vec<Failure> = gpu.failures().cloned().collect();
    failures.dedup();
    let is_consequence = |failure: &Failure| failure.reason.starts_with(NOT_CALLED);
    if failures.iter().all(is_consequence) {
        failures.truncate(1);
    } else {
        failures.retain(|failure| !is_consequence(failure));
    }
    failures
}

/// The failure, or that of the call because of which this one was not made.
fn cause(failure: &Failure) -> String {
    let cause = failure.reason.strip_prefix(NOT_CALLED);
    let cause = cause.filter(|cause| cause.starts_with("nvml"));
    cause.map_or_else(|| failure.to_string(), str::to_owned)
}

fn recovery(gpu: &GpuFacts) -> Option<Finding> {
    let action = *gpu.recovery_action.known().filter(|action| **action != 0)?;
    let name = recovery_action(action).map_or_else(|| format!("number {action}"), str::to_owned);
    Some(Finding::error(
        "gpu-needs-recovery",
        subject(gpu),
        format!("the driver requires a recovery action for this GPU: {name}"),
        "end the programs that use the GPU; then reset it (nvidia-smi --gpu-reset) or reboot, as the action says",
    ))
}

fn pending_mig(gpu: &GpuFacts) -> Option<Finding> {
    let mig = gpu.mig.known().filter(|mig| mig.enabled != mig.pending)?;
    let on = |is_on| if is_on { "on" } else { "off" };
    Some(Finding::warning(
        "gpu-mig-pending",
        subject(gpu),
        format!(
            "MIG mode is {}, and will be {} after the next reset",
            on(mig.enabled),
            on(mig.pending)
        ),
        "end the programs that use the GPU, and reset it (nvidia-smi --gpu-reset)",
    ))
}

fn fix_of(failure: &Failure) -> String {
    let code = failure.code.map(gpu_inventory::NvmlCode);
    code.map_or(
        "see dmesg for lines of NVRM and Xid; run nvidia-smi on the host; if it hangs or fails, too, reset the GPU or reboot",
        gpu_inventory::NvmlCode::hint,
    )
    .to_owned()
}

fn subject(gpu: &GpuFacts) -> String {
    format!("GPU {}", label(gpu))
}

#[cfg(test)]
mod tests;
