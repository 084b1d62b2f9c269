//! `cdi-gen watch`: changes of the host's CDI devices, as they happen.
//!
//! The directories are read again once a second. That is slower than inotify,
//! but right where inotify is not: a directory that is created, mounted over or
//! replaced is not the one that is watched, files behind links are not watched at
//! all, and a host's limit on watches may be exhausted. To read the specs of a
//! thousand claims takes some milliseconds.

mod cause;
mod event;
mod snapshot;

use std::io::{self, BufWriter, Write};
use std::thread;
use std::time::Duration;

use self::event::Event;
use self::snapshot::Snapshot;
use crate::args::Watch;
use crate::escape::{escape, escape_json};
use crate::host_specs::HostSpecs;
use crate::outcome::{Failure, Outcome};
use crate::stdout::Stdout;

const PAUSE: Duration = Duration::from_secs(1);

pub(super) fn run(
    args: &Watch,
    stdout: &mut BufWriter<Stdout<impl Write>>,
) -> Result<Outcome, Failure> {
    let mut before = Snapshot::default();
    loop {
        // Opened each time: the root may be unmounted.
        let now = Snapshot::take(&HostSpecs::open(&args.specs)?);
        let events = now.since(&before);
        if args.json {
            for event in &events {
                write(event, stdout).map_err(Failure::stdout)?;
            }
        } else {
            for line in cause::lines(&events) {
                writeln!(stdout, "{}", escape(&line)).map_err(Failure::stdout)?;
            }
        }
        stdout.flush().map_err(Failure::stdout)?;
        if args.once || stdout.get_ref().is_closed() {
            return Ok(Outcome::Clean);
        }
        before = now;
        thread::sleep(PAUSE);
    }
}

fn write(event: &Event<'_>, output: &mut impl Write) -> io::Result<()> {
    let line = serde_json::to_string(event)?;
    writeln!(output, "{}", escape_json(&line))
}
