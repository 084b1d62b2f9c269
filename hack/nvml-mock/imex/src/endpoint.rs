//! The command endpoint: each connection has one query and one answer.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::domain::Domain;
use crate::faults::Faults;
use crate::report;

/// How often a thread that waits for a line checks whether the daemon ends.
pub const TICK: Duration = Duration::from_millis(100);

/// Where a daemon listens for commands.
#[derive(Debug, Clone)]
pub enum Endpoint {
    /// `IMEX_CMD_UNIX_DOMAIN_PATH`.
    Socket(PathBuf),
    /// `IMEX_CMD_BIND_INTERFACE_IP` and `IMEX_CMD_PORT`.
    Address(IpAddr, u16),
}

/// A query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Query {
    /// The daemon's own state.
    State,
    /// The daemon's view of the domain, as JSON.
    Domain,
}

impl Query {
    fn word(self) -> &'static str {
        match self {
            Self::State => "state",
            Self::Domain => "domain",
        }
    }
}

/// Queries a daemon. Waits for its answer without timeout.
pub fn ask(endpoint: &Endpoint, question: Query) -> io::Result<String> {
    match endpoint {
        Endpoint::Socket(path) => exchange(UnixStream::connect(path)?, question),
        Endpoint::Address(ip, port) => exchange(TcpStream::connect((*ip, *port))?, question),
    }
}

fn exchange(mut stream: impl Read + Write, question: Query) -> io::Result<String> {
    stream.write_all(format!("{}\n", question.word()).as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(answer)
}

/// Listens; answers on its own threads.
pub fn serve(endpoint: &Endpoint, domain: &Arc<Domain>, root: &Path) -> io::Result<()> {
    match endpoint {
        Endpoint::Socket(path) => {
            // Left by a killed daemon.
            let _ = std::fs::remove_file(path);
            let listener = UnixListener::bind(path)?;
            answer_all(domain, root, move || listener.accept().map(|(it, _)| it));
        }
        Endpoint::Address(ip, port) => {
            let listener = TcpListener::bind((*ip, *port))?;
            answer_all(domain, root, move || listener.accept().map(|(it, _)| it));
        }
    }
    Ok(())
}

fn answer_all<S: Read + Write + Send + 'static>(
    domain: &Arc<Domain>,
    root: &Path,
    mut accept: impl FnMut() -> io::Result<S> + Send + 'static,
) {
    let (domain, root) = (Arc::clone(domain), root.to_owned());
    thread::spawn(move || {
        while let Ok(stream) = accept() {
            let (domain, root) = (Arc::clone(&domain), root.clone());
            thread::spawn(move || drop(answer(stream, &domain, &root)));
        }
    });
}

fn answer(stream: impl Read + Write, domain: &Domain, root: &Path) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut question = String::new();
    stream.read_line(&mut question)?;
    let faults = Faults::read(root).unwrap_or_default();
    if faults.hangs {
        // The client times out and disconnects.
        return stream.read_to_end(&mut Vec::new()).map(drop);
    }
    let state = faults.stuck.unwrap_or_else(|| domain.state());
    let answer = if question.trim() == Query::Domain.word() {
        report::json(domain, &state)
    } else {
        state
    };
    stream.get_mut().write_all(format!("{answer}\n").as_bytes())
}
