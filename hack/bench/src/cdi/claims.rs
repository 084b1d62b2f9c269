//! The spec files of claims: listing many, writing one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use durable_file::OsDir;
use imex_cdi::{ChannelId, ClaimSpec, ClaimSpecs, ClaimUid, Kind, Major, Registry};

use crate::disk::{RawFile, Scratch};
use crate::rounds::{Rounds, interleave};
use crate::table::{Aim, Row};

const CLAIMS: usize = 1000;

const LIST: Aim = Aim::Within(Duration::from_millis(50));
const WRITE: Aim = Aim::Ratio(1.2);

pub(super) fn rows(scratch: &Scratch, rounds: usize) -> anyhow::Result<Vec<Row>> {
    let memory = Scratch::in_memory()?;
    let one = Claims::of(&scratch.subdirectory("one")?)?;
    one.write(0, 0)?;
    let file_bytes = one.content(0)?.len();
    let row = |of, operation, aim, rounds| Row {
        of,
        file_bytes,
        operation,
        rounds,
        aim,
    };
    let many = || format!("{CLAIMS} claims");
    let one = || "1 claim".to_owned();
    let list = |dir: &Path| listed(dir, rounds);
    let new = |dir: &Path| written(dir, rounds, Write::New);
    let anew = |dir: &Path| written(dir, rounds, Write::Anew);
    let on_disk = |name| scratch.subdirectory(name);
    let in_memory = |name| {
        let path = memory.path().join(name);
        fs::create_dir(&path).map(|()| path)
    };
    Ok(vec![
        row(
            many(),
            "list, in memory / list and read",
            Some(LIST),
            list(&in_memory("list")?)?,
        ),
        row(
            many(),
            "list, on disk / list and read",
            Some(LIST),
            list(&on_disk("list")?)?,
        ),
        row(
            one(),
            "write a new one, on disk / raw",
            Some(WRITE),
            new(&on_disk("new")?)?,
        ),
        row(
            one(),
            "write a new one, in memory / raw",
            Some(WRITE),
            new(&in_memory("new")?)?,
        ),
        row(
            one(),
            "replace one, on disk / raw",
            Some(WRITE),
            anew(&on_disk("anew")?)?,
        ),
        row(
            one(),
            "replace one, in memory / raw",
            Some(WRITE),
            anew(&in_memory("anew")?)?,
        ),
    ])
}

/// Claim files in a directory.
struct Claims {
    dir: PathBuf,
    specs: ClaimSpecs,
    contents: [ClaimSpec; 2],
}

#[derive(Clone, Copy)]
enum Write {
    /// Creates a file, as by a Prepare.
    New,
    /// Replaces a file that has another major, as after a reload of the kernel driver.
    Anew,
}

// === impl Claims ===

impl Claims {
    fn of(dir: &Path) -> anyhow::Result<Self> {
        let content = |major| {
            let channel = ChannelId::new(0)?;
            anyhow::Ok(ClaimSpec::imex_channel(channel, Major::new(major)?))
        };
        Ok(Self {
            dir: dir.to_owned(),
            specs: ClaimSpecs::new(Arc::new(OsDir::open(dir)?), Kind::compute_domain_claim()),
            contents: [content(235)?, content(511)?],
        })
    }

    fn uid(number: usize) -> anyhow::Result<ClaimUid> {
        Ok(ClaimUid::new(format!(
            "11111111-aaaa-4bbb-8ccc-{number:012}"
        ))?)
    }

    /// Writes the file of claim `number`; the content differs from the previous
    /// version but has the same length.
    fn write(&self, number: usize, version: usize) -> anyhow::Result<()> {
        let [even, odd] = &self.contents;
        let content = if version.is_multiple_of(2) { even } else { odd };
        let asserted = self.specs.ensure(&Self::uid(number)?, content)?;
        ensure!(asserted.written, "the file was already up to date");
        Ok(())
    }

    /// The content of the file of claim `number`.
    fn content(&self, number: usize) -> anyhow::Result<Vec<u8>> {
        let kind = Kind::compute_domain_claim();
        let uid = Self::uid(number)?;
        let name = format!("{}-{}_{uid}.yaml", kind.vendor(), kind.class());
        Ok(fs::read(self.dir.join(name))?)
    }
}

/// The floor of a list: reads the names and each file.
fn listed(dir: &Path, rounds: usize) -> anyhow::Result<Rounds> {
    let claims = Claims::of(dir)?;
    for number in 0..CLAIMS {
        claims.write(number, 0)?;
    }
    let list = || {
        let registry = Registry::load(&[dir]);
        ensure!(registry.devices().count() == CLAIMS);
        Ok(())
    };
    let read = || {
        for entry in fs::read_dir(dir)? {
            ensure!(!fs::read(entry?.path())?.is_empty());
        }
        Ok(())
    };
    interleave(rounds, list, read)
}

fn written(dir: &Path, rounds: usize, how: Write) -> anyhow::Result<Rounds> {
    let claims = Claims::of(dir)?;
    claims.write(0, 0)?;
    let bytes = claims.content(0)?;
    let raw = RawFile::in_directory(dir)?;
    let (mut calls, mut floors) = (0, 0);
    let write = || {
        calls += 1;
        match how {
            Write::New => claims.write(calls, 0),
            Write::Anew => claims.write(0, calls),
        }
    };
    let floor = || {
        floors += 1;
        let name = match how {
            Write::New => format!("floor-{floors}"),
            Write::Anew => "floor".to_owned(),
        };
        Ok(raw.replace(&name, &bytes)?)
    };
    interleave(rounds, write, floor)
}
