//! The `cdi-gen` program: its size and start time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::disk::Scratch;
use crate::rounds::interleave;
use crate::table::{Aim, Fact, Row};

const SIZE: u64 = 5_000_000;
const START: Aim = Aim::Within(Duration::from_millis(5));

pub(super) fn size() -> anyhow::Result<Fact> {
    Ok(Fact {
        what: "size of cdi-gen",
        bytes: bytes_of(&cdi_gen()?)?,
        aim: SIZE,
    })
}

/// The floor is `true`, a program that does nothing.
pub(super) fn rows(scratch: &Scratch, rounds: usize) -> anyhow::Result<Vec<Row>> {
    let program = cdi_gen()?;
    let file_bytes = usize::try_from(bytes_of(&program)?)?;
    let root = scratch.subdirectory("root")?;
    let version = || run(Command::new(&program).arg("--version"));
    let list = || run(Command::new(&program).args(["list", "--root"]).arg(&root));
    let floor = || run(&mut Command::new("/bin/true"));
    let row = |operation, rounds| Row {
        of: "cdi-gen".to_owned(),
        file_bytes,
        operation,
        rounds,
        aim: Some(START),
    };
    Ok(vec![
        row("--version / true", interleave(rounds, version, floor)?),
        row(
            "list of an empty root / true",
            interleave(rounds, list, floor)?,
        ),
    ])
}

/// The `cdi-gen` that was built with this program.
fn cdi_gen() -> anyhow::Result<PathBuf> {
    let this = std::env::current_exe()?;
    let folder = this
        .parent()
        .context("this program has no parent directory")?;
    Ok(folder.join("cdi-gen"))
}

fn bytes_of(program: &Path) -> anyhow::Result<u64> {
    let found = fs::metadata(program);
    let found = found.with_context(|| format!("cannot find {}", program.display()))?;
    Ok(found.len())
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}
