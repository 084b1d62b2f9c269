//! Signals that end a daemon.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::StartError;

/// Those that Go's daemons end on.
const ENDING: [(SignalKind, &str); 4] = [
    (SignalKind::terminate(), "SIGTERM"),
    (SignalKind::interrupt(), "SIGINT"),
    (SignalKind::hangup(), "SIGHUP"),
    (SignalKind::quit(), "SIGQUIT"),
];

/// A token that is cancelled by the first ending signal. Later ones change nothing: whoever waits
/// on the token bounds its own end.
pub fn shutdown() -> Result<CancellationToken, StartError> {
    let token = CancellationToken::new();
    for (kind, name) in ENDING {
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
