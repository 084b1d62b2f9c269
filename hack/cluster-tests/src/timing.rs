//! Waiting inside a scenario, whose own time limit ends every wait.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How often a wait says what it still waits for.
const PRINT_INTERVAL: Duration = Duration::from_secs(20);

thread_local! {
    /// What the scenario of this thread waits for; empty if for nothing.
    static WAIT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// What the scenario waits for in vain, and why.
fn unfinished_wait() -> String {
    WAIT.with_borrow(|wait| {
        let end = wait
            .char_indices()
            .nth(1_000)
            .map_or(wait.len(), |(end, _)| end);
        wait.get(..end).unwrap_or_default().to_owned()
    })
}

/// Gives a scenario a time limit. It has to wait on the thread that calls this, not in a task.
///
/// # Errors
/// Those of the scenario; when the time is over, what it waited for.
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
    reason = "who watches a scenario sees what it waits for"
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

/// Fails as soon as `condition` does, succeeds when `time` is over: for what must
/// not happen.
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

/// As [`until`], but it must happen within `limit`; returns how long it took.
///
/// # Errors
/// If it does not: what the condition said last.
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
