//! Accepts the other nodes.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use crate::domain::{Domain, WakeReason};
use crate::program::log;

/// Serves until the process ends.
pub fn run(domain: &Arc<Domain>, listener: &TcpListener) {
    for socket in listener.incoming().flatten() {
        let domain = Arc::clone(domain);
        // If a connection fails, the other node redials.
        thread::spawn(move || {
            if let Err(err) = serve(&domain, socket) {
                log(&format!("a node that dials is not served: {err}"));
            }
        });
    }
}

fn serve(domain: &Domain, socket: TcpStream) -> io::Result<()> {
    let stream = domain.transport.accept(socket)?;
    let mut stream = BufReader::new(stream);
    let mut hello = String::new();
    stream.read_line(&mut hello)?;
    let list = format!("{:016x}", domain.nodes.fingerprint());
    if hello.split_whitespace().nth(2) != Some(list.as_str()) {
        return stream.get_mut().write_all(b"REFUSED node map mismatch\n");
    }
    let welcome = format!("WELCOME {}\n", domain.own);
    stream.get_mut().write_all(welcome.as_bytes())?;
    let round = domain.round();
    // Until the dialler or this daemon ends.
    let mut ignored = String::new();
    stream
        .get_ref()
        .socket()
        .set_read_timeout(Some(crate::endpoint::TICK))?;
    while !matches!(stream.read_line(&mut ignored), Ok(0)) {
        if domain.next_action(round) == WakeReason::End {
            return stream.get_mut().write_all(b"BYE\n");
        }
        if ignored.contains("BYE") {
            return Ok(());
        }
    }
    Ok(())
}
