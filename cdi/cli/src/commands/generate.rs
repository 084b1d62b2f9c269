//! `cdi-gen generate`: writes a spec for IMEX channels.
//!
//! ```text
//! --channels ─┐
//! /proc ──────┼─► Driver ──► devices ──► Spec ──► stdout, a file, or installed
//! options ────┘
//! ```

mod conflict;
mod destination;
mod devices;
mod driver;
mod error;
mod merge;
mod yaml;

use std::io::Write;
use std::path::{Path, PathBuf};

use imex_cdi::{Device, Kind, Spec};

use self::destination::Destination;
use self::devices::{Access, Template};
use self::driver::Driver;
use self::error::GenerateError;
use crate::args::{Devices, Generate, MajorArg, Mode, OrAuto, OrMin};
use crate::host_specs::HostSpecs;
use crate::outcome::{Failure, Outcome};

pub(super) fn run(args: Generate, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    check(&args)?;
    let Generate {
        devices: Devices::Imex,
        channels,
        major,
        count,
        mode,
        kind,
        name_style,
        permissions,
        uid,
        gid,
        file_mode,
        version,
        format,
        output: path,
        install,
        replace,
        id,
        specs,
        proc_root,
        dev_root,
    } = args;
    let host = HostSpecs::open(&specs)?;
    let proc = proc_root.unwrap_or_else(|| host.root().resolve(Path::new("/proc")));
    let driver = Driver::new(proc);
    driver.note_contradiction(major);
    let channels = driver.channels(channels, count)?;
    let access = Access {
        file_mode,
        uid,
        gid,
        permissions,
    };
    let template = match mode {
        Mode::Mknod => mknod(&driver, major, access)?,
        Mode::HostPath => Template::HostPath {
            dev_root: dev_root.unwrap_or_else(|| PathBuf::from("/")),
            access,
        },
    };
    let devices: Result<Vec<Device>, _> = channels
        .into_iter()
        .map(|channel| template.device(channel, name_style))
        .collect();
    let spec = spec(kind, devices?, version)?;
    if mode == Mode::HostPath {
        devices::note_absent(&spec, host.root());
    }
    let destination = if install {
        Destination::installed(&spec, id.as_deref(), host.dirs(), replace)
    } else {
        Destination::output(path, host.dirs())
    };
    destination.write(&spec, format, stdout)?;
    Ok(Outcome::Clean)
}

fn mknod(
    driver: &Driver,
    major: OrAuto<MajorArg>,
    access: Access,
) -> Result<Template, GenerateError> {
    Ok(Template::Mknod {
        major: driver.major(major)?,
        access: access.or_from_driver(driver.params()?.unwrap_or_default()),
    })
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
    let without_meaning = match args.mode {
        Mode::HostPath if args.major != OrAuto::Auto => Some("--major"),
        Mode::Mknod if args.dev_root.is_some() => Some("--dev-root"),
        _ => None,
    };
    match without_meaning {
        Some(option) => Err(GenerateError::WithoutMeaning {
            option,
            mode: args.mode,
        }),
        None => Ok(()),
    }
}
