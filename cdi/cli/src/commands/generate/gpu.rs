//! `cdi-gen generate gpu`: writes a spec for a host's GPUs.
//!
//! ```text
//! NVML, /proc, sysfs ──► Inventory ──► devices ──────────┐
//! driver root ─────────► DriverFiles ──► container edits ┴─► Spec ──► stdout or a file
//! ```

use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use dra_common::error_chain;
use gpu_inventory::{Fact, Inventory, common_nodes, read};
use host_doctor::{GPU_WITHOUT_IDENTITY, Host, Severity, gpu_findings, gpu_sources};
use imex_cdi::{ContainerEdits, Spec, SpecError};
use nvidia_driver_files::{DriverFiles, DriverVersion, RuntimePaths, find_version};
use nvml_session::DriverRoot;

use super::destination::{self, Destination, Hints};
use super::driver::Driver;
use super::gpu_devices::{DeviceMaker, Devices, cdi_nodes, missing};
use super::kind::check_kind;
use crate::args::GenerateGpu;
use crate::host_specs::HostSpecs;
use crate::outcome::{Failure, Outcome};
use crate::terminal::note;

pub(super) fn run(args: &GenerateGpu, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    let specs = HostSpecs::open(&args.specs)?;
    specs.check_root()?;
    check_kind(&args.kind)?;
    let sources = gpu_sources(&specs.host, &args.driver_root);
    let inventory = read(&sources);
    // Which GPUs have MIG mode is unknown, and so what a whole GPU is.
    if let Some(failure) = inventory.driver.gpu_count.failure() {
        let message = format!("no spec is written, because NVML cannot be used: {failure}");
        return Err(Failure::new(Outcome::Findings, message).hint("run cdi-gen gpus"));
    }
    let root = sources.driver_root.with_library();
    let version = driver_version(&inventory, &root)?;
    let files = DriverFiles::find(&root, &version);
    let mut is_clean = report(&inventory, &files, &specs, &args.hook);

    let runtime = RuntimePaths {
        driver_root: &host_name(&args.specs.root, root.path()),
        hook: &args.hook.to_string_lossy(),
    };
    let mut edits = files.container_edits(&runtime);
    let params = Driver::read(sources.proc.clone())?.params();
    let common = common_nodes(&inventory.host).map_err(|error| missing(&error))?;
    edits.device_nodes = cdi_nodes(&common, params);
    let maker = DeviceMaker {
        inventory: &inventory,
        proc: &sources.proc,
        runtime,
        params,
    };
    let Devices { devices, left_out } = maker.all()?;
    for problem in &left_out {
        note(problem);
        is_clean = false;
    }
    if devices.is_empty() {
        let message = "this host has no GPU that a container can use";
        return Err(Failure::new(Outcome::Findings, message).hint("run cdi-gen gpus"));
    }
    let spec = spec(args, devices, edits)?;
    let destination = Destination {
        output: &args.output,
        format: args.format,
        hints: Hints {
            too_long: "write it to a file (--output) as JSON, which is shortest without line breaks",
            conflict: "replace the other file (pass it as --output), remove that file, or choose another --kind",
        },
    };
    destination::write(&destination, &spec, &specs.dirs(), stdout)?;
    Ok(Outcome::of(is_clean))
}

fn spec(
    args: &GenerateGpu,
    devices: Vec<imex_cdi::Device>,
    edits: ContainerEdits,
) -> Result<Spec, Failure> {
    let invalid =
        |error: SpecError| Failure::new(Outcome::Usage, error_chain(&error)).hint(error.hint());
    Spec::new(args.kind.clone(), devices)
        .and_then(|spec| spec.with_container_edits(edits))
        .map_err(invalid)
}

/// The version of the loaded module: files of another version do not work with it. Without a module, as in an image
/// that is being built, the version of the files.
fn driver_version(inventory: &Inventory, root: &DriverRoot) -> Result<DriverVersion, Failure> {
    match &inventory.driver.module {
        Fact::Known(version) => {
            if let Ok(version) = version.parse() {
                return Ok(version);
            }
        }
        Fact::Failed(failure) => {
            let message = format!("the kernel module's version is unknown: {failure}");
            return Err(Failure::new(Outcome::Io, message).hint(
                "run cdi-gen as root; if the file has no version, reload the nvidia module",
            ));
        }
        Fact::Absent => {}
    }
    find_version(root)
        .map_err(|error| Failure::new(Outcome::Findings, error_chain(&error)).hint(error.hint()))
}

/// Reports problems on stderr. Returns whether there are none.
fn report(inventory: &Inventory, files: &DriverFiles, specs: &HostSpecs, hook: &Path) -> bool {
    let mut is_clean = true;
    let mut problem = |text: String| {
        is_clean = false;
        note(&text);
    };
    for finding in gpu_findings(inventory) {
        if finding.severity != Severity::Info || finding.id == GPU_WITHOUT_IDENTITY {
            let (subject, evidence) = (finding.subject, finding.evidence);
            problem(format!("{subject}: {evidence}; {}", finding.fix));
        }
    }
    for found in &files.problems {
        problem(format!("{found}; {}", found.hint()));
    }
    if let Some(reason) = hook_problem(&specs.host, hook) {
        problem(format!("the hook program {} {reason}", hook.display()));
    }
    is_clean
}

/// Why a runtime cannot run the hook program, and what to do.
fn hook_problem(host: &Host, hook: &Path) -> Option<String> {
    let reason = match host.resolve_target(hook).metadata() {
        _ if !hook.is_absolute() => "is not an absolute path",
        Ok(found) if !found.is_file() => "is not a file",
        Ok(found) if found.permissions().mode() & 0o111 == 0 => "is not executable",
        Ok(_) => return None,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            "does not exist"
        }
        Err(error) => {
            return Some(format!("cannot be examined: {error}; run cdi-gen as root"));
        }
    };
    Some(format!(
        "{reason}, so containers with these devices cannot start; install nvidia-cdi-hook with mode 0755, and pass its absolute path with --hook"
    ))
}

/// The path of a directory below `root`, as the host names it.
fn host_name(root: &Path, path: &Path) -> String {
    let inside = path.strip_prefix(root).unwrap_or(path);
    let name: PathBuf = Path::new("/").join(inside);
    name.to_string_lossy().into_owned()
}
