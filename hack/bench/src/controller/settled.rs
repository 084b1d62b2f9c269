//! Detects when a program has nothing left to do: it reports so itself, and it sends no requests.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use anyhow::bail;
use tokio::time::sleep;

use super::program::{Program, Which};
use crate::audit::{AuditLog, Requests};

/// The subject's address for health and metrics. No other program in the control plane's network
/// namespace uses it.
pub(super) const HTTP_ENDPOINT: &str = "127.0.0.1:8080";

/// The time without requests after which a program counts as settled. A busy program never pauses as
/// long.
const QUIET: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(20);
/// Enough for ten thousand domains, at one in 50 ms.
const GIVE_UP: Duration = Duration::from_secs(500);

/// Waits until the program watches and has settled; returns the time at which it settled. Adds its
/// requests meanwhile to `requests`; ignores renewals of the lease.
pub(super) async fn settle(
    program: &mut Program,
    audit: &mut AuditLog,
    requests: &mut Requests,
) -> anyhow::Result<Instant> {
    let began = Instant::now();
    let mut since = None;
    while began.elapsed() < GIVE_UP {
        program.check_alive()?;
        let made = audit.read(&program.user)?;
        requests.extend(&made);
        program.watching |= made.watches_of("computedomains") > 0;
        // Queried only at both ends of the quiet time: the answers are part of its CPU time.
        match since {
            _ if !program.watching || made.requests_without_lease() > 0 => since = None,
            None => since = says_settled(program.which).then(Instant::now),
            Some(start) if start.elapsed() < QUIET => {}
            Some(start) if says_settled(program.which) => return Ok(start),
            Some(_) => since = None,
        }
        sleep(POLL).await;
    }
    bail!("the program does not settle: {}", program.last_lines())
}

/// Whether the subject reports that it is ready, leads and has an empty queue; it ignores values that
/// are not exported. The floor has no server.
fn says_settled(which: Which) -> bool {
    if which == Which::Floor {
        return true;
    }
    let metrics = get("/metrics");
    // The values are integers.
    let is = |name: &str, value: f64| {
        metric(&metrics, name).is_none_or(|found| (found - value).abs() < 0.5)
    };
    get("/readyz").starts_with("HTTP/1.1 200 ")
        && is("imex_dra_leader", 1.0)
        && is("imex_dra_queue_depth", 0.0)
}

/// The sum of all series with the name; `None` if there are none.
fn metric(metrics: &str, name: &str) -> Option<f64> {
    let series = metrics.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let of_name = rest.starts_with([' ', '{']);
        of_name.then(|| rest.rsplit(' ').next()?.parse::<f64>().ok())?
    });
    series.reduce(|sum, value| sum + value)
}

/// The whole response; empty if there is none.
fn get(path: &str) -> String {
    let answer = || {
        let mut connection = TcpStream::connect(HTTP_ENDPOINT)?;
        connection.set_read_timeout(Some(QUIET))?;
        write!(
            connection,
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    answer().unwrap_or_default()
}

#[cfg(test)]
mod tests;
