//! Waiting for a condition, with one timeout for all tests.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::Cluster;

/// The limit of a wait. kubelet retries a failed prepare after up to 90 s, and a restart
/// of everything takes a minute, so conditions that are still false will stay so.
pub const TIMEOUT: Duration = Duration::from_secs(240);

/// How often a condition is checked. Short compared with the waits (hundreds of
/// milliseconds at least), long compared with one `kubectl` (60 ms).
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Checks `condition` until it returns `Ok`, and returns that value. `what` completes the
/// sentence "timed out waiting until ...".
///
/// # Errors
/// The last error of the condition, after [`TIMEOUT`]. Logs and events of the whole
/// cluster are printed first.
pub fn wait_until<T>(
    cluster: &Cluster,
    what: &str,
    mut condition: impl FnMut() -> Result<T>,
) -> Result<T> {
    let started = Instant::now();
    loop {
        let error = match condition() {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        if started.elapsed() > TIMEOUT {
            cluster.print_state();
            return Err(anyhow!(
                "timed out after {} s waiting until {what}: {error:#}",
                TIMEOUT.as_secs()
            ));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}
