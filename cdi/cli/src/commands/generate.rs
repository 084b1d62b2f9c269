//! `cdi-gen generate`: writes a spec for IMEX channels.
//!
//! ```text
//! --channels ─┐
//! /proc ──────┼─► Driver ──► devices ──► Spec ──► stdout or a file
//! options ────┘
//! ```

mod conflict;
mod destination;
mod devices;
mod driver;
mod error;
mod yaml;

use std::io::Write;
use std::path::Path;

use imex_cdi::{Device, Kind, Spec};

use self::destination::Destination;
use self::devices::{Access, Template};
use self::driver::Driver;
use self::error::GenerateError;
use crate::args::{Generate, Mode, OrAuto, OrMin};
use crate::host_specs::HostSpecs;
use crate::outcome::{Failure, Outcome};

pub(super) fn run(args: Generate, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    check(&args)?;
    let Generate {
        channels,
        major,
        mode,
        kind,
        permissions,
        uid,
        gid,
        file_mode,
        version,
        format,
        output: path,
        specs,
    } = args;
    let host = HostSpecs::open(&specs)?;
    let driver = Driver::read(host.root().resolve(Path::new("/proc")))?;
    driver.note_contradiction(major);
    let channels = driver.channels(channels)?;
    let access = Access {
        file_mode,
        uid,
        gid,
        permissions,
    };
    let template = match mode {
        Mode::Mknod => Template {
            major: Some(driver.major(major)?),
            access: access.or_from_driver(driver.params()),
        },
        Mode::HostPath => Template {
            major: None,
            access,
        },
    };
    let channels = channels.into_iter();
    let devices = channels.map(|channel| template.device(channel)).collect();
    let spec = spec(kind, devices, version)?;
    if mode == Mode::HostPath {
        devices::note_absent(&spec, host.root());
    }
    Destination::new(path, host.dirs()).write(&spec, format, stdout)?;
    Ok(Outcome::Clean)
}

fn spec(kind: Kind, devices: Vec<Device>, version: OrMin) -> Result<Spec, GenerateError> {
    let mut spec = Spec::new(kind, devices).map_err(GenerateError::Spec)?;
    if let OrMin::Version(version) = version {
        spec = spec.with_version(version).map_err(GenerateError::Spec)?;
    }
    Ok(spec)
}

/// What clap cannot check.
fn check(args: &Generate) -> Result<(), GenerateError> {
    if args.kind.vendor().len() == 1 || args.kind.class().len() == 1 {
        return Err(GenerateError::OneLetter {
            kind: args.kind.clone(),
        });
    }
    if args.mode == Mode::HostPath && args.major != OrAuto::Auto {
        return Err(GenerateError::MajorOfHostPath);
    }
    Ok(())
}
