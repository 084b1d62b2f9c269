//! `cdi-gen checkpoint`: one file in, claims or bytes out.

mod error;
mod fix;
mod input;
mod report;
mod table;

use std::io::Write;
use std::path::{Path, PathBuf};

use compute_domain_node::Group;
use dra_checkpoint::{BootId, Checkpoint, Damaged};

use crate::args::CheckpointCommand;
use crate::claims::Decoded;
use crate::failure::{Failure, Outcome};
use crate::printable::{printable, write_json};

pub(crate) use self::error::CheckpointError;
pub(crate) use self::input::MOST_BYTES;
use self::report::Report;

pub(crate) fn run(command: CheckpointCommand, output: &mut impl Write) -> Result<Outcome, Failure> {
    match command {
        CheckpointCommand::Show { file, json } => show(&file, json, output),
        CheckpointCommand::Verify { files } => verify(&files, output),
        CheckpointCommand::Rewrite { file } => rewrite(&file, output),
    }
}

fn show(path: &Path, json: bool, output: &mut impl Write) -> Result<Outcome, Failure> {
    let decoded = decode(path)?;
    let this_boot = BootId::of_this_host().ok();
    let report = Report::of(path, &decoded, this_boot.as_ref());
    if json {
        write_json(&report, output)
    } else {
        table::write(&report, output)
    }
    .map_err(Failure::Output)?;
    Ok(match decoded {
        Ok(_) => Outcome::Clean,
        Err(_) => Outcome::Findings,
    })
}

/// Looks at every file, whatever the others are.
fn verify(paths: &[PathBuf], output: &mut impl Write) -> Result<Outcome, Failure> {
    let mut outcome = Outcome::Clean;
    let mut unread = 0;
    for path in paths {
        let verdict = match decode(path) {
            Ok(Ok(_)) => "OK".to_owned(),
            Ok(Err(damaged)) => {
                outcome = Outcome::Findings;
                format!("CORRUPT: {}", what_is_wrong(&damaged))
            }
            // Reported where the command ends, as anywhere else.
            Err(error) if paths.len() == 1 => return Err(error.into()),
            Err(error) => {
                output.flush().map_err(Failure::Output)?;
                Failure::from(error).report();
                unread += 1;
                continue;
            }
        };
        let line = printable(&format!("{}: {verdict}", path.display()));
        writeln!(output, "{line}").map_err(Failure::Output)?;
    }
    match unread {
        0 => Ok(outcome),
        _ => Err(Failure::ReadSome {
            unread,
            files: paths.len(),
        }),
    }
}

fn rewrite(path: &Path, output: &mut impl Write) -> Result<Outcome, Failure> {
    let checkpoint = decode(path)?.map_err(|damaged| CheckpointError::Damaged {
        path: path.to_owned(),
        what: what_is_wrong(&damaged),
    })?;
    let bytes = checkpoint
        .encode()
        .map_err(|source| CheckpointError::Encode {
            path: path.to_owned(),
            source,
        })?;
    output.write_all(&bytes).map_err(Failure::Output)?;
    Ok(Outcome::Clean)
}

fn decode(path: &Path) -> Result<Decoded, CheckpointError> {
    Ok(Checkpoint::decode(&input::read(path)?))
}

/// The reason, the place, and the numbers of each checksum that does not match.
fn what_is_wrong(damaged: &Damaged<Group>) -> String {
    let detail = damaged.detail.iter().map(ToString::to_string);
    let mismatches = damaged.mismatches.iter().map(ToString::to_string);
    std::iter::once(damaged.reason.to_string())
        .chain(detail)
        .chain(mismatches)
        .collect::<Vec<_>>()
        .join("; ")
}
