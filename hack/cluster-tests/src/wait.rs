//! Waiting on a condition, with one deadline for giving up.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use crate::Cluster;

/// When a wait gives up: kubelet retries a failed prepare after up to 90 s and
/// a restart of everything takes a minute, so this much time means "never".
pub const GIVE_UP: Duration = Duration::from_secs(240);

/// How often a condition is looked at. Short against what is waited for
/// (hundreds of milliseconds at least), long against one `kubectl` (60 ms).
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Looks at `condition` until it returns `Ok`, and returns what it returned.
///
/// # Errors
/// After [`GIVE_UP`]: the last error of the condition, once the components' logs
/// and the events of all namespaces are printed.
pub fn eventually<T>(
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
        if started.elapsed() > GIVE_UP {
            cluster.print_state();
            return Err(anyhow!(
                "gave up after {} s waiting until {what}: {error:#}",
                GIVE_UP.as_secs()
            ));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
