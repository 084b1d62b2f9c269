//! `cdi-gen checkpoint`: reads the kubelet plugin's checkpoint.

mod contents;
mod damage;
mod report;
mod text;

use std::io::Write;
use std::path::{Path, PathBuf};

use dra_checkpoint::BootId;
use host_doctor::checkpoint_path;

use self::contents::Contents;
use self::report::CheckpointReport;
use crate::args::{CheckpointCommand, NodeCheckpoint};
use crate::escape::escape;
use crate::host_specs::open_host;
use crate::outcome::{Failure, Outcome};
use crate::output::print;

pub(super) fn run(command: CheckpointCommand, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    match command {
        CheckpointCommand::Show { file, node, json } => show(
            &file.map_or_else(|| node_checkpoint(&node), Ok)?,
            json,
            stdout,
        ),
        CheckpointCommand::Verify {
            mut files,
            canonical,
            node,
        } => {
            if files.is_empty() {
                files.push(node_checkpoint(&node)?);
            }
            match files.as_slice() {
                files if !canonical => verify(files, stdout),
                [file] => print_canonical(file, stdout),
                files => {
                    let count = files.len();
                    let message = format!("--canonical takes one file, not {count}");
                    Err(Failure::new(Outcome::Usage, message).hint("pass one file"))
                }
            }
        }
    }
}

/// The path of this node's checkpoint.
fn node_checkpoint(node: &NodeCheckpoint) -> Result<PathBuf, Failure> {
    let host = open_host(&node.root)?;
    let kubelet = node.kubelet.path.to_string_lossy();
    Ok(host.resolve(checkpoint_path(&kubelet)))
}

fn show(path: &Path, json: bool, stdout: &mut impl Write) -> Result<Outcome, Failure> {
    let contents = Contents::read(path)?;
    let this_boot = BootId::current().ok();
    let checkpoint = CheckpointReport::new(path, &contents, this_boot.as_ref());
    print(&checkpoint, json, stdout)?;
    Ok(Outcome::of(!matches!(contents, Contents::Damaged(_))))
}

/// Checks every file, also after one that cannot be read.
fn verify(paths: &[PathBuf], stdout: &mut impl Write) -> Result<Outcome, Failure> {
    let mut is_clean = true;
    let mut unread = 0;
    for path in paths {
        let verdict = match Contents::read(path) {
            Ok(Contents::Own(_)) => "OK".to_owned(),
            Ok(Contents::Foreign { drivers, .. }) => {
                format!("OK: checkpoint of another driver: {}", drivers.join(", "))
            }
            Ok(Contents::Damaged(damaged)) => {
                is_clean = false;
                format!("CORRUPT: {}", damaged.description())
            }
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
    let contents = Contents::read(path)?;
    let path = path.display();
    let checkpoint = match contents {
        Contents::Own(checkpoint) => checkpoint,
        Contents::Foreign { drivers, .. } => {
            let drivers = drivers.join(", ");
            let message = format!("{path} is the checkpoint of another driver ({drivers})");
            return Err(Failure::new(Outcome::Io, message)
                .hint("--canonical supports only checkpoints of compute-domain.nvidia.com"));
        }
        Contents::Damaged(damaged) => {
            let message = format!("{path} is damaged: {}", damaged.description());
            return Err(Failure::new(Outcome::Findings, message)
                .hint("`cdi-gen checkpoint show` prints the claims that are still readable"));
        }
    };
    let bytes = checkpoint.encode().map_err(|error| {
        Failure::caused_by(Outcome::Findings, format!("cannot encode {path}"), &error)
            .hint("this is a bug; please report it with the file")
    })?;
    stdout.write_all(&bytes).map_err(Failure::stdout)?;
    Ok(Outcome::Clean)
}
