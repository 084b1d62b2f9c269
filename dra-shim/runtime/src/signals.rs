//! The signals that end a program.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::StartError;

/// The signals that end the Go driver's programs.
const SHUTDOWN_SIGNALS: [(SignalKind, &str); 4] = [
    (SignalKind::terminate(), "SIGTERM"),
    (SignalKind::interrupt(), "SIGINT"),
    (SignalKind::hangup(), "SIGHUP"),
    (SignalKind::quit(), "SIGQUIT"),
];

/// Returns a token that SIGTERM, SIGINT, SIGHUP or SIGQUIT cancels. Further signals have no effect, so
/// tasks that wait for the token must end in bounded time.
///
/// Call it inside the tokio runtime, once: it replaces the signals' default actions.
///
/// # Errors
/// If the process is at its limit of threads or open files.
pub fn shutdown() -> Result<CancellationToken, StartError> {
    let token = CancellationToken::new();
    for (kind, name) in SHUTDOWN_SIGNALS {
        let stream = signal(kind)
            .map_err(|err| StartError::new(&err, "raise the limits on threads and open files"))?;
        tokio::spawn(forward(stream, name, token.clone()));
    }
    Ok(token)
}

async fn forward(mut stream: Signal, name: &'static str, token: CancellationToken) {
    while stream.recv().await.is_some() {
        info!(signal = name, "shutdown requested");
        token.cancel();
    }
}
