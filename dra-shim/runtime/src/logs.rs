use std::panic;

use tracing::error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::util::TryInitError;

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Human-readable text.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Libraries whose log lines are only useful to debug the library.
const NOISY_LIBRARIES: [&str; 9] = [
    "h2",
    "hyper",
    "hyper_util",
    "kube_client",
    "kube_runtime",
    "rustls",
    "tonic",
    "tower",
    "tower_http",
];

/// Logs to stderr. Fails if a subscriber is already installed.
pub(crate) fn install(verbosity: u8, format: LogFormat) -> Result<(), TryInitError> {
    let registry = tracing_subscriber::registry().with(EnvFilter::new(directives(verbosity)));
    let layer = fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    match format {
        LogFormat::Text => registry.with(layer).try_init(),
        LogFormat::Json => registry
            .with(
                layer
                    .json()
                    .flatten_event(true)
                    .with_current_span(true)
                    .with_span_list(false),
            )
            .try_init(),
    }
}

/// The filter for a verbosity of klog: 0 for administrators, from 4 (the chart's default) details of
/// every claim, from 6 every request, from 8 everything.
fn directives(verbosity: u8) -> String {
    let (ours, theirs) = match verbosity {
        0..=3 => ("info", "warn"),
        4..=5 => ("debug", "warn"),
        6..=7 => ("trace", "debug"),
        _ => ("trace", "trace"),
    };
    let mut directives = ours.to_owned();
    for library in NOISY_LIBRARIES {
        directives.extend([",", library, "=", theirs]);
    }
    if verbosity < 6 {
        // kube logs every watch that breaks off; the API server's condition already logs the outage, once.
        directives.push_str(",kube_client::client=off");
    }
    directives
}

/// Logs panics as ordinary log lines. Does not change how they are caught.
pub(crate) fn install_panic_hook() {
    panic::set_hook(Box::new(|info| {
        let payload = info.payload();
        let message = payload
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        let location = info.location().map(ToString::to_string).unwrap_or_default();
        error!(
            location,
            thread = std::thread::current().name(),
            "panic: {message}"
        );
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_of_every_verbosity_can_be_parsed() {
        for verbosity in 0..=10 {
            let text = directives(verbosity);
            EnvFilter::builder()
                .parse(&text)
                .unwrap_or_else(|err| panic!("{text}: {err}"));
        }
    }
}
