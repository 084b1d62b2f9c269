//! `cdi-gen checkpoint`: reads the checkpoints of the kubelet plugins.

mod contents;
mod damage;
mod report;
mod text;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use dra_checkpoint::{BootId, CHECKPOINT_FILE, Payload};
use host_doctor::{DecodedCheckpoint, DraDriver, boot_id};

use self::contents::{Contents, Records};
use self::report::CheckpointReport;
use crate::args::{CheckpointCommand, NodeCheckpoint};
use crate::escape::escape;
use crate::host_specs::open_host;
use crate::outcome::{Failure, Outcome};
use crate::output::print;

pub(super) fn run(command: CheckpointCommand, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    match command {
        CheckpointCommand::Show { file, node, json } => {
            let files = match file {
                Some(file) => vec![file],
                None => node_files(&node, false)?,
            };
            let boot = boot_id(&open_host(&node.root)?);
            let boot = boot.and_then(|id| BootId::new(&id).ok());
            show(&files, boot.as_ref(), json, stdout)
        }
        CheckpointCommand::Verify {
            mut files,
            canonical,
            node,
        } => {
            if files.is_empty() {
                files = node_files(&node, !canonical)?;
            }
            match files.as_slice() {
                files if !canonical => verify(files, stdout),
                [file] => print_canonical(file, stdout),
                files => {
                    let count = files.len();
                    let message = format!("--canonical takes one file, not {count}");
                    Err(Failure::new(Outcome::Usage, message).hint("pass one file, or --driver"))
                }
            }
        }
    }
}

/// The checkpoints of this node's drivers, and their files of aborted claims if wanted.
fn node_files(node: &NodeCheckpoint, with_aborted: bool) -> Result<Vec<PathBuf>, Failure> {
    let host = open_host(&node.root)?;
    let root = node.kubelet.path.to_string_lossy();
    let drivers = match node.driver {
        Some(driver) => vec![driver],
        None => node_drivers(|driver| host.resolve(driver.plugin_dir(&root))),
    };
    let mut files = Vec::new();
    for driver in drivers {
        files.push(host.resolve(driver.checkpoint(&root)));
        let aborted = host.resolve(driver.aborted_file(&root));
        if with_aborted && aborted.exists() {
            files.push(aborted);
        }
    }
    Ok(files)
}

/// The drivers with a checkpoint on the node, damaged or not. Otherwise the first driver with a
/// directory, even without a checkpoint; if there is none, the first driver.
fn node_drivers(dir: impl Fn(DraDriver) -> PathBuf) -> Vec<DraDriver> {
    let all = DraDriver::ALL.into_iter();
    let has_checkpoint = |driver: &DraDriver| {
        let mut entries = fs::read_dir(dir(*driver)).into_iter().flatten().flatten();
        entries.any(|entry| damage::has_name(&entry.path(), CHECKPOINT_FILE))
    };
    let found: Vec<DraDriver> = all.clone().filter(has_checkpoint).collect();
    if !found.is_empty() {
        return found;
    }
    let with_dir = all.clone().filter(|driver| dir(*driver).exists());
    with_dir.chain(all).take(1).collect()
}

/// `host_boot`: the id of the host's current boot, if it is known.
fn show(
    paths: &[PathBuf],
    host_boot: Option<&BootId>,
    json: bool,
    stdout: &mut impl Write,
) -> Result<Outcome, Failure> {
    if json && paths.len() > 1 {
        let message =
            "this node has checkpoints of several drivers, but --json prints one document";
        let names = DraDriver::ALL.map(DraDriver::name).join(" or ");
        return Err(Failure::new(Outcome::Usage, message).hint(format!("pass --driver {names}")));
    }
    let (mut is_clean, mut failed) = (true, None);
    for (at, path) in paths.iter().enumerate() {
        let mut contents = Contents::read(path)?;
        // The checkpoint is printed all the same.
        failed = contents.add_aborted(path).err().or(failed);
        let report = CheckpointReport::new(path, &contents, host_boot);
        if at > 0 {
            writeln!(stdout).map_err(Failure::stdout)?;
        }
        print(&report, json, stdout)?;
        is_clean &= report.damage.is_none();
    }
    failed.map_or_else(|| Ok(Outcome::of(is_clean)), Err)
}

/// Checks every file, also after one that cannot be read.
fn verify(paths: &[PathBuf], stdout: &mut impl Write) -> Result<Outcome, Failure> {
    let mut is_clean = true;
    let mut unread = 0;
    for path in paths {
        let verdict = match Contents::read(path) {
            Ok(contents) => match contents.damage() {
                Some(description) => {
                    is_clean = false;
                    format!("CORRUPT: {description}")
                }
                None if contents.foreign_drivers.is_empty() => "OK".to_owned(),
                None => {
                    let drivers = contents.foreign_drivers.join(", ");
                    format!("OK: checkpoint of another driver: {drivers}")
                }
            },
            Err(failure) if paths.len() == 1 => return Err(failure),
            Err(failure) => {
                stdout.flush().map_err(Failure::stdout)?;
                failure.report();
                unread += 1;
                continue;
            }
        };
        let line = escape(&format!("{}: {verdict}", path.display()));
        writeln!(stdout, "{line}").map_err(Failure::stdout)?;
    }
    match unread {
        0 => Ok(Outcome::of(is_clean)),
        _ => Err(Failure::unread(unread, paths.len())),
    }
}

fn print_canonical(path: &Path, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    let bytes = match Contents::read(path)?.records {
        Records::Channels(decoded) => canonical(path, decoded)?,
        Records::Gpus(decoded) => canonical(path, decoded)?,
        Records::Raw(_) => {
            let names = DraDriver::ALL.map(DraDriver::name).join(" or ");
            let message = format!("{} is not a checkpoint of {names}", path.display());
            return Err(Failure::new(Outcome::Io, message)
                .hint("--canonical supports only checkpoints of these drivers"));
        }
    };
    stdout.write_all(&bytes).map_err(Failure::stdout)?;
    Ok(Outcome::Clean)
}

/// The bytes that the plugin would write.
fn canonical<P: Payload>(path: &Path, decoded: DecodedCheckpoint<P>) -> Result<Vec<u8>, Failure> {
    let path = path.display();
    let checkpoint = decoded.map_err(|damaged| {
        let message = format!("{path} is damaged: {}", damaged.description());
        Failure::new(Outcome::Findings, message)
            .hint("`cdi-gen checkpoint show` prints the claims that are still readable")
    })?;
    checkpoint.encode().map_err(|error| {
        Failure::caused_by(Outcome::Findings, format!("cannot encode {path}"), &error)
            .hint("this is a bug; please report it with the file")
    })
}
