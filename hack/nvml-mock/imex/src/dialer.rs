//! Dials another node repeatedly.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::domain::{Domain, WakeReason};
use crate::node_list::Hosts;
use crate::program::log;
use crate::tls::Stream;

/// The pauses between attempts.
const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(3);

/// Timeout for a connection and for each answer.
const LIMIT: Duration = Duration::from_secs(1);

/// How often an idle connection checks whether the daemon ends or redials.
const TICK: Duration = Duration::from_millis(100);

type Connection = BufReader<Box<dyn Stream>>;

/// How a connection ended.
enum Ended {
    /// It was lost or never established.
    Lost,
    /// The other node refuses this one, or is a different node.
    Refused(String),
    /// This daemon ended it.
    WakeReason(WakeReason),
}

/// Keeps a connection to the node of line `index` until the daemon ends. Each attempt resolves the
/// name again.
pub fn run(domain: &Domain, hosts: &Hosts, index: usize) {
    let mut pause = SHORTEST;
    loop {
        let round = domain.round();
        let woken = match connect(domain, hosts, index, round) {
            Ended::WakeReason(woken) => woken,
            ended => {
                if let Ended::Refused(reason) = ended {
                    log(&format!("node {index}: {reason}"));
                }
                domain.wait(round, pause)
            }
        };
        pause = match woken {
            WakeReason::End => return,
            WakeReason::NewRound => SHORTEST,
            WakeReason::Timeout => LONGEST.min(pause * 2),
        };
    }
}

fn connect(domain: &Domain, hosts: &Hosts, index: usize, round: u64) -> Ended {
    let name = domain.nodes.names().get(index).map_or("", String::as_str);
    let Some(address) = hosts.resolve(name) else {
        return Ended::Lost;
    };
    let target = SocketAddr::new(address, domain.port);
    let Ok(socket) = TcpStream::connect_timeout(&target, LIMIT) else {
        return Ended::Lost;
    };
    let mut was_connected = false;
    let ended = open(domain, socket).and_then(|mut stream| {
        if let Some(reason) = greet(domain, &mut stream, index)? {
            return Ok(Ended::Refused(reason));
        }
        domain.set_link(index, "CONNECTED", Some(address));
        was_connected = true;
        keep(domain, &mut stream, round)
    });
    let ended = ended.unwrap_or(Ended::Lost);
    match &ended {
        Ended::Refused(_) => domain.set_link(index, "INVALID", Some(address)),
        _ if was_connected => domain.set_link(index, "RECOVERING", Some(address)),
        _ => {}
    }
    ended
}

/// Opens a connection, encrypted if configured.
fn open(domain: &Domain, socket: TcpStream) -> io::Result<Connection> {
    socket.set_read_timeout(Some(LIMIT))?;
    let stream = domain.transport.dial(socket);
    let stream = stream.inspect_err(|err| log(&format!("a node is not dialled: {err}")))?;
    Ok(BufReader::new(stream))
}

/// Sends `HELLO` with this node's line and list; returns why the other node refuses.
fn greet(domain: &Domain, stream: &mut Connection, index: usize) -> io::Result<Option<String>> {
    let (own, list) = (domain.own, domain.nodes.fingerprint());
    let hello = format!("HELLO {own} {list:016x}\n");
    stream.get_mut().write_all(hello.as_bytes())?;
    let mut answer = String::new();
    stream.read_line(&mut answer)?;
    let answer = answer.trim();
    if answer == format!("WELCOME {index}") {
        return Ok(None);
    }
    if answer.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(format!("not accepted: {answer}")))
}

/// Keeps the connection until one side ends it. The other side sends `BYE` or just disconnects.
fn keep(domain: &Domain, stream: &mut Connection, round: u64) -> io::Result<Ended> {
    stream.get_ref().socket().set_read_timeout(Some(TICK))?;
    let mut line = String::new();
    loop {
        match stream.read_line(&mut line) {
            Ok(0) => return Ok(Ended::Lost),
            Ok(_) if line.trim() == "BYE" => return Ok(Ended::Lost),
            Ok(_) => line.clear(),
            Err(err) if is_timeout(&err) => {}
            Err(err) => return Err(err),
        }
        let woken = domain.next_action(round);
        if woken == WakeReason::End {
            stream.get_mut().write_all(b"BYE\n")?;
        }
        if woken != WakeReason::Timeout {
            return Ok(Ended::WakeReason(woken));
        }
    }
}

fn is_timeout(err: &io::Error) -> bool {
    matches!(
        err.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
    )
}
