//! `cdi-gen generate`: writes a spec for IMEX channels, or for GPUs (`gpu`).
//!
//! ```text
//! --channels ─┐
//! /proc ──────┼─► Driver ──► devices ──► Spec ──► stdout or a file
//! options ────┘
//! ```

mod destination;
mod devices;
mod driver;
mod gpu;
mod gpu_devices;
mod kind;
mod yaml;

use std::io::Write;

use dra_common::error_chain;
use imex_cdi::{Spec, SpecError};

use self::destination::{Destination, Hints};
use self::driver::Driver;
use self::kind::check_kind;
use crate::args::{Generate, GenerateCommand, MajorArg, Mode, VersionArg};
use crate::host_specs::HostSpecs;
use crate::outcome::{Failure, Outcome};

pub(super) fn run(args: &Generate, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    if let Some(GenerateCommand::Gpu(args)) = &args.command {
        return gpu::run(args, stdout);
    }
    check_kind(&args.kind)?;
    check_mode(args)?;
    let specs = HostSpecs::open(&args.specs)?;
    let driver = Driver::read(specs.host.resolve("/proc"))?;
    driver.warn_major_mismatch(args.major);
    // clap requires it without a subcommand.
    let Some(channels) = &args.channels else {
        return Err(Failure::new(Outcome::Usage, "--channels is missing"));
    };
    let channels = driver.channels(channels)?;
    let major = match args.mode {
        Mode::Mknod => Some(driver.major(args.major)?),
        Mode::HostPath => None,
    };
    let devices = devices::of_channels(channels, major, args, driver.params());
    let invalid = |error: SpecError| {
        Failure::new(Outcome::Usage, error_chain(&error))
            .hint(format!("{}; or leave --version at min", error.hint()))
    };
    let mut spec = Spec::new(args.kind.clone(), devices).map_err(invalid)?;
    if let VersionArg::Version(version) = args.version {
        spec = spec.with_version(version).map_err(invalid)?;
    }
    if args.mode == Mode::HostPath {
        devices::warn_missing_nodes(&spec, &specs.host);
    }
    let destination = Destination {
        output: &args.output,
        format: args.format,
        hints: Hints {
            too_long: "pass fewer channels, or split them into several files",
            conflict: "leave this device out, remove it from the other file, or choose another --kind",
        },
    };
    destination::write(&destination, &spec, &specs.dirs(), stdout)?;
    Ok(Outcome::Clean)
}

/// What clap cannot check.
fn check_mode(args: &Generate) -> Result<(), Failure> {
    if args.mode == Mode::HostPath && args.major != MajorArg::Auto {
        let message =
            "--major cannot be used with --mode host-path, which uses the host's device node";
        return Err(Failure::new(Outcome::Usage, message).hint("omit --major"));
    }
    Ok(())
}
