//! `cdi-gen watch`: what happens to the host's CDI devices, as it happens.
//!
//! The directories are read anew once a second. That is slower than inotify,
//! and right where inotify is not: a directory that is made, mounted over or
//! replaced has another watch than the one that was set, files behind links
//! have none, and a host's limit on watches may be exhausted. Reading a
//! thousand claims' specs takes some milliseconds.

mod event;
mod seen;

use std::io::{self, BufWriter, Write};
use std::thread;
use std::time::Duration;

use self::event::Event;
use self::seen::Seen;
use crate::args::Watch;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::printable::printable_json;

const PAUSE: Duration = Duration::from_secs(1);

pub(crate) fn run(
    args: &Watch,
    output: &mut BufWriter<Output<impl Write>>,
) -> Result<Outcome, Failure> {
    let mut before = Seen::default();
    loop {
        let now = Seen::look(&args.specs)?;
        for event in now.since(&before) {
            write(&event, output).map_err(Failure::Output)?;
        }
        output.flush().map_err(Failure::Output)?;
        if args.once || output.get_ref().reader_left() {
            return Ok(Outcome::Clean);
        }
        before = now;
        thread::sleep(PAUSE);
    }
}

fn write(event: &Event, output: &mut impl Write) -> io::Result<()> {
    let line = serde_json::to_string(event)?;
    writeln!(output, "{}", printable_json(&line))
}
