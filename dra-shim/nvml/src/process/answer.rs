//! The lines that a process with a session sends.

use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;

use serde::Serialize;

/// Writes a line with one system call, so that the parent never waits for its rest.
pub(super) fn answer(mut socket: &UnixStream, answer: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    socket.write_all(&line)
}
