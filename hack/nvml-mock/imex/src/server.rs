//! Accepts the other nodes.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use crate::domain::{Domain, Woken};

/// Serves until the process ends.
pub fn run(domain: &Arc<Domain>, listener: &TcpListener) {
    for stream in listener.incoming().flatten() {
        let domain = Arc::clone(domain);
        // A connection that fails is the other node's to dial again.
        thread::spawn(move || drop(serve(&domain, &stream)));
    }
}

fn serve(domain: &Domain, stream: &TcpStream) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut hello = String::new();
    reader.read_line(&mut hello)?;
    let mut writer = stream;
    let list = format!("{:016x}", domain.nodes.fingerprint());
    if hello.split_whitespace().nth(2) != Some(list.as_str()) {
        return writer.write_all(b"REFUSED node map mismatch\n");
    }
    writer.write_all(format!("WELCOME {}\n", domain.own).as_bytes())?;
    let round = domain.round();
    // The dialler's end, or ours.
    let mut ignored = String::new();
    stream.set_read_timeout(Some(crate::endpoint::TICK))?;
    while !matches!(reader.read_line(&mut ignored), Ok(0)) {
        if domain.look(round) == Woken::End {
            return writer.write_all(b"BYE\n");
        }
        if ignored.contains("BYE") {
            return Ok(());
        }
    }
    Ok(())
}
