//! Adds CDI devices to a container whose runtime does not support CDI.
//!
//! A runtime such as runc starts a container from a *bundle*: a directory with
//! a root file system and a `config.json`. This program edits that file before the
//! runtime reads it:
//!
//! ```text
//! inject-bundle [--cdi-dir DIR]... BUNDLE NAME...
//!
//! inject-bundle /run/bundles/train k8s.compute-domain.nvidia.com/claim=0f6b...-channel-0
//! runc run --bundle /run/bundles/train train
//! ```
//!
//! DIR is a directory of CDI specs, lowest priority first; without one they are
//! `/etc/cdi` and `/var/run/cdi`. NAME is `vendor/class=device`.
//!
//! It prints each change, with the file and field that it comes from. If anything is
//! wrong (a name that does not resolve, a missing device node, a malformed config) it
//! changes nothing, prints what to do, and exits with 1. The file is replaced
//! atomically; fields that no change concerns are preserved, even unknown ones.
//!
//! If the file already has the devices, their rules and hooks are added again: run
//! this once for each bundle. If `config.json` is a link, its target is replaced, and
//! the link stays.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program prints its result"
)]

use std::error::Error;
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::ExitCode;

use durable_file::{Dir, OsDir};
use imex_cdi::{DEFAULT_DIRS, OsHost, Plan, QualifiedName, Registry};
use serde_json::Value;

const USAGE: &str = "usage: inject-bundle [--cdi-dir DIR]... BUNDLE NAME...";

/// The file of a bundle.
const CONFIG: &str = "config.json";

fn main() -> ExitCode {
    let arguments = std::env::args_os().skip(1);
    match run(arguments.map(|it| it.to_string_lossy().into_owned())) {
        Ok(report) => {
            print!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("inject-bundle: {}", sentence(&*error));
            ExitCode::FAILURE
        }
    }
}

/// Runs the program with `args`, and returns its output.
pub(crate) fn run(args: impl Iterator<Item = String>) -> Result<String, Box<dyn Error>> {
    let Some(Args {
        cdi_dirs,
        bundle,
        names,
    }) = Args::parse(args)?
    else {
        return Ok(format!("{USAGE}\n"));
    };

    // Read everything ...
    let registry = Registry::load(&cdi_dirs);
    let link = bundle.join(CONFIG);
    let fault = |error: &dyn Error| format!("{}: {error}", link.display());
    // `replace` would replace the link itself.
    let path = link.canonicalize().map_err(|error| fault(&error))?;
    let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str)) else {
        return Err(format!("{} is not a file", path.display()).into());
    };
    let dir = OsDir::open(dir)?;
    let text = dir.read(name)?.ok_or("the bundle has no config.json")?;
    let permissions = path.metadata()?.permissions();
    let mut config: Value = serde_json::from_slice(&text).map_err(|error| fault(&error))?;

    // ... decide everything ...
    let plan = Plan::new(&registry, &names, &config, &OsHost::new("/")).map_err(|error| {
        let hint = error.hint();
        format!("{}; {hint}", sentence(&error))
    })?;

    // ... and do it.
    plan.apply(&mut config);
    let text = serde_json::to_vec_pretty(&config)?;
    dir.replace(name, &text, permissions.mode() & 0o777)?;

    let mut report = String::new();
    for step in plan.steps() {
        writeln!(report, "{} ({})", step.change, step.source)?;
    }
    Ok(report)
}

struct Args {
    cdi_dirs: Vec<PathBuf>,
    bundle: PathBuf,
    names: Vec<QualifiedName>,
}

impl Args {
    /// `None` if only help is requested.
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Self>, Box<dyn Error>> {
        let mut cdi_dirs = Vec::new();
        let bundle = loop {
            match args.next().ok_or(USAGE)?.as_str() {
                "--help" => return Ok(None),
                "--cdi-dir" => cdi_dirs.push(args.next().ok_or(USAGE)?.into()),
                option if option.starts_with('-') => return Err(USAGE.into()),
                bundle => break PathBuf::from(bundle),
            }
        };
        let names = args
            .map(|name| name.parse())
            .collect::<Result<Vec<_>, _>>()?;
        if names.is_empty() {
            return Err(USAGE.into());
        }
        if cdi_dirs.is_empty() {
            cdi_dirs = DEFAULT_DIRS.map(PathBuf::from).into();
        }
        Ok(Some(Self {
            cdi_dirs,
            bundle,
            names,
        }))
    }
}

/// The error and its causes.
fn sentence(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
