//! `cdi-gen generate`: from what the driver says of its channels to a spec.
//!
//! ```text
//! --channels ─┐
//! /proc ──────┼─► Driver ──► nodes ──► Spec ──► stdout, a file, or installed
//! options ────┘
//! ```

mod deliver;
mod driver;
mod error;
mod nodes;
mod yaml;

use std::io::Write;
use std::path::{Path, PathBuf};

use imex_cdi::{Device, MAX_SPEC_LEN, Spec};

use self::deliver::Install;
use self::driver::Driver;
pub(crate) use self::error::GenerateError;
use self::nodes::{Owned, Template};
use crate::args::{Devices, Format, Generate, Mode, OrAuto, OrMin};
use crate::failure::{Failure, Outcome};
use crate::printable::printable;

pub(crate) fn run(args: Generate, output: &mut impl Write) -> Result<Outcome, Failure> {
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
        id,
        specs,
        proc_root,
        dev_root,
    } = args;
    let root = specs.root()?;
    let proc = proc_root.unwrap_or_else(|| root.path(Path::new("/proc")));
    let driver = Driver::new(proc);
    driver.note_contradiction(major);
    let channels = driver.channels(channels, count)?;
    let owned = Owned {
        file_mode,
        uid,
        gid,
        permissions,
    };
    let template = match mode {
        Mode::Mknod => Template::Mknod {
            major: driver.major(major)?,
            owned: owned.or_of_driver(driver.params()?.unwrap_or_default()),
        },
        Mode::HostPath => Template::HostPath {
            dev_root: dev_root.unwrap_or_else(|| PathBuf::from("/")),
            owned,
        },
    };
    let devices: Result<Vec<Device>, _> = channels
        .into_iter()
        .map(|channel| template.device(channel, name_style))
        .collect();
    let mut spec = Spec::new(kind, devices?).map_err(GenerateError::Spec)?;
    if let OrMin::This(version) = version {
        spec = spec.with_version(version).map_err(GenerateError::Spec)?;
    }
    let len = spec.to_json().len();
    if len as u64 > MAX_SPEC_LEN {
        return Err(GenerateError::TooLong { len }.into());
    }
    if matches!(template, Template::HostPath { .. }) {
        nodes::note_absent(&spec, &root);
    }
    let target = if install {
        Target::Installed(Install::new(&spec, id.as_deref(), specs.paths()?))
    } else if path == Path::new("-") {
        Target::Stdout
    } else {
        deliver::check_conflict(&path, &spec, &specs.paths()?)?;
        Target::File(path)
    };
    deliver(&spec, &target, format, output)
}

/// Where the spec goes.
enum Target {
    Stdout,
    File(PathBuf),
    Installed(Install),
}

fn deliver(
    spec: &Spec,
    target: &Target,
    format: Format,
    output: &mut impl Write,
) -> Result<Outcome, Failure> {
    match target {
        Target::Stdout => output.write_all(&deliver::text(spec, format)),
        Target::File(path) => {
            let bytes = match format {
                Format::Json => spec.to_json(),
                Format::Yaml => deliver::text(spec, format),
            };
            deliver::write(path, &bytes)?;
            Ok(())
        }
        Target::Installed(install) => {
            let file = install.write(spec)?;
            writeln!(output, "{}", printable(&file.to_string_lossy()))
        }
    }
    .map_err(Failure::Output)?;
    Ok(Outcome::Clean)
}

/// What clap cannot say of a combination.
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
