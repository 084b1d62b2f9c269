//! Gives CDI devices to a container whose runtime knows no CDI.
//!
//! A runtime such as runc starts a container from a *bundle*: a directory with
//! a root file system and a `config.json`. This program puts devices into that
//! file, between whoever wrote it and the runtime:
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
//! It prints a line for each change with the file and field that asked for it.
//! If anything is wrong (a name without device, a node that is missing, a
//! config that is none) it changes nothing, says what to do, and exits 1. The
//! file is replaced at once, so that a runtime reads the old one or the new
//! one; what it holds beside the changes stays, also what no OCI version knows.
//!
//! Run it on a file that has the devices already and rules and hooks are there
//! twice: a bundle is for one container. Where `config.json` is a link, the file
//! that it leads to is replaced, and the link stays.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program says what it did"
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
    match run(std::env::args().skip(1)) {
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

/// Does what `args` ask for, and says what was changed.
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
    // A replace would put a file in the place of a link.
    let path = link.canonicalize().map_err(|error| fault(&error))?;
    let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str)) else {
        return Err(format!("{} is no file", path.display()).into());
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
    /// `None` if only help is asked for.
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

/// The error and what caused it.
fn sentence(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
