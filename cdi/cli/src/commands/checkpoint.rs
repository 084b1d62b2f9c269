//! `cdi-gen checkpoint`: reads the kubelet plugin's checkpoint.

mod contents;
mod damage;
mod error;
mod input;
mod report;
mod text;

use std::io::Write;
use std::path::{Path, PathBuf};

use dra_checkpoint::{BootId, CHECKPOINT_FILE};
use host_doctor::Root;

use crate::args::{CheckpointCommand, NodeCheckpoint};
use crate::escape::escape;
use crate::host_specs::HostError;
use crate::outcome::{Failure, Outcome, UnreadFiles};
use crate::output::print;

use self::contents::Contents;
use self::error::CheckpointError;
use self::report::CheckpointReport;

pub(super) fn run(command: CheckpointCommand, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    match command {
        CheckpointCommand::Show { file, node, json } => {
            show(&file.map_or_else(|| own(&node), Ok)?, json, stdout)
        }
        CheckpointCommand::Verify {
            mut files,
            canonical,
            node,
        } => {
            if files.is_empty() {
                files.push(own(&node)?);
            }
            match files.as_slice() {
                files if !canonical => verify(files, stdout),
                [file] => print_canonical(file, stdout),
                files => Err(CheckpointError::Many { count: files.len() }.into()),
            }
        }
    }
}

/// The file in which the node's plugin has its records.
fn own(node: &NodeCheckpoint) -> Result<PathBuf, HostError> {
    let root = Root::new(&node.root)?;
    Ok(root.resolve(&node.kubelet.plugin_dir().join(CHECKPOINT_FILE)))
}

fn show(path: &Path, json: bool, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    let contents = decode(path)?;
    let this_boot = BootId::current().ok();
    let checkpoint = CheckpointReport::new(path, &contents, this_boot.as_ref());
    print(&checkpoint, json, stdout)?;
    Ok(match contents {
        Contents::Own(_) | Contents::Foreign { .. } => Outcome::Clean,
        Contents::Damaged(_) => Outcome::Findings,
    })
}

/// Checks every file, also after one that cannot be read.
fn verify(paths: &[PathBuf], stdout: &mut impl Write) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::Clean;
    let mut unread = 0;
    for path in paths {
        let verdict = match decode(path) {
            Ok(Contents::Own(_)) => "OK".to_owned(),
            Ok(Contents::Foreign { drivers, .. }) => {
                format!("OK: another driver's: {}", drivers.join(", "))
            }
            Ok(Contents::Damaged(damaged)) => {
                outcome = Outcome::Findings;
                format!("CORRUPT: {}", damaged.description())
            }
            Err(error) if paths.len() == 1 => return Err(error.into()),
            Err(error) => {
                stdout.flush().map_err(Failure::stdout)?;
                Failure::from(error).report();
                unread += 1;
                continue;
            }
        };
        let line = escape(&format!("{}: {verdict}", path.display()));
        writeln!(stdout, "{line}").map_err(Failure::stdout)?;
    }
    match unread {
        0 => Ok(outcome),
        _ => Err(UnreadFiles {
            unread,
            files: paths.len(),
        }
        .into()),
    }
}

fn print_canonical(path: &Path, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    let checkpoint = match decode(path)? {
        Contents::Own(checkpoint) => checkpoint,
        Contents::Foreign { drivers, .. } => {
            let (path, drivers) = (path.to_owned(), drivers.join(", "));
            return Err(CheckpointError::Foreign { path, drivers }.into());
        }
        Contents::Damaged(damaged) => {
            let (path, what) = (path.to_owned(), damaged.description());
            return Err(CheckpointError::Damaged { path, what }.into());
        }
    };
    let bytes = checkpoint
        .encode()
        .map_err(|source| CheckpointError::Encode {
            path: path.to_owned(),
            source,
        })?;
    stdout.write_all(&bytes).map_err(Failure::stdout)?;
    Ok(Outcome::Clean)
}

fn decode(path: &Path) -> Result<Contents, CheckpointError> {
    Ok(Contents::decode(&input::read(path)?))
}
