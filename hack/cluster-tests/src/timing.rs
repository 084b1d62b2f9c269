//! Waiting inside a scenario. The scenario's time limit ends every wait.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How often a wait prints its pending condition.
const PRINT_INTERVAL: Duration = Duration::from_secs(20);

thread_local! {
    /// The pending condition of this thread's scenario; empty if there is none.
    static WAIT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The pending condition of the scenario, with its last error.
fn unfinished_wait() -> String {
    WAIT.with_borrow(|wait| {
        let end = wait
            .char_indices()
            .nth(1_000)
            .map_or(wait.len(), |(end, _)| end);
        wait.get(..end).unwrap_or_default().to_owned()
    })
}

/// Gives a scenario a time limit. The scenario must wait on the calling thread, not in a task.
///
/// # Errors
/// Those of the scenario; after the limit, its pending condition.
pub async fn at_most<T>(limit: Duration, scenario: impl Future<Output = Result<T>>) -> Result<T> {
    match tokio::time::timeout(limit, scenario).await {
        Ok(outcome) => outcome,
        Err(_) => bail!("timed out after {limit:?}: {}", unfinished_wait()),
    }
}

/// Checks `condition` until it is `Ok`, or until the scenario's time limit. The last error
/// is printed every 20 s.
#[expect(
    clippy::print_stderr,
    reason = "shows the pending condition during a scenario"
)]
pub async fn until<T>(what: &str, mut condition: impl AsyncFnMut() -> Result<T>) -> T {
    let mut printed = Instant::now();
    loop {
        let error = match condition().await {
            Ok(value) => {
                WAIT.with_borrow_mut(String::clear);
                return value;
            }
            Err(error) => error,
        };
        WAIT.set(format!("{what}: {error:#}"));
        if printed.elapsed() > PRINT_INTERVAL {
            eprintln!("still waiting until {}", unfinished_wait());
            printed = Instant::now();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Checks that `condition` holds during all of `time`: for events that must not
/// happen.
///
/// # Errors
/// That of the condition.
pub async fn throughout(
    time: Duration,
    mut condition: impl AsyncFnMut() -> Result<()>,
) -> Result<()> {
    let end = Instant::now() + time;
    while Instant::now() < end {
        condition().await?;
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    Ok(())
}

/// As [`until`], but with a time limit; returns how long it took.
///
/// # Errors
/// After the limit, with the condition's last error.
pub async fn within(
    limit: Duration,
    what: &str,
    condition: impl AsyncFnMut() -> Result<()>,
) -> Result<Duration> {
    let started = Instant::now();
    if tokio::time::timeout(limit, until(what, condition))
        .await
        .is_err()
    {
        bail!("not within {limit:?}: {}", unfinished_wait());
    }
    Ok(started.elapsed())
}

/// A duration as text, for a remark.
pub fn seconds(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        format!("{} ms", time.as_millis())
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}
