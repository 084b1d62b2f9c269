//! `compute-domain-daemon check`: reports whether the daemon of this container is ready.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use daemon_runtime::StartError;

/// Timeout. The daemon answers from memory.
const LIMIT: Duration = Duration::from_secs(2);

/// Why the daemon cannot be reached.
#[derive(Debug)]
struct CheckError(String);

impl std::fmt::Display for CheckError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CheckError {}

/// Requests `/readyz` of the daemon at `endpoint` and prints the answer. Exit code 0: it is ready.
///
/// # Errors
/// The daemon cannot be reached.
pub(crate) fn run(endpoint: &str) -> Result<ExitCode, StartError> {
    let error = |text: String| {
        let hint = "set --http-endpoint (HTTP_ENDPOINT) to the value that the daemon uses, and see the daemon's log";
        StartError::new(&CheckError(text), hint)
    };
    let address = address(endpoint).ok_or_else(|| {
        error(format!(
            "the daemon's HTTP endpoint {endpoint:?} is not an address"
        ))
    })?;
    let answer = ask(address)
        .map_err(|err| error(format!("the daemon at {address} does not respond: {err}")))?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    // The reader may have exited.
    let _ = io::stdout().write_all(body.as_bytes());
    let is_ready = answer.split(' ').nth(1) == Some("200");
    Ok(if is_ready {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// `:PORT` is served on all interfaces, so the loopback interface works.
fn address(endpoint: &str) -> Option<SocketAddr> {
    if let Some(port) = endpoint.strip_prefix(':') {
        return Some((Ipv4Addr::LOCALHOST, port.parse().ok()?).into());
    }
    endpoint.replace("localhost:", "127.0.0.1:").parse().ok()
}

fn ask(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: daemon\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
