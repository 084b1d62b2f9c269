use std::panic;

use tracing::error;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::util::TryInitError;

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object per line.
    Json,
}

/// Libraries whose own lines are for the authors of those libraries.
const CHATTY: [&str; 9] = [
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

/// Sends log lines to stderr from now on. Fails if a subscriber is installed already.
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

/// klog's numbers as levels: 0 and up what an operator reads, 4 (the chart's default) and up what
/// explains one claim, 6 and up every request, 8 and up everything.
fn directives(verbosity: u8) -> String {
    let (ours, theirs) = match verbosity {
        0..=3 => ("info", "warn"),
        4..=5 => ("debug", "warn"),
        6..=7 => ("trace", "debug"),
        _ => ("trace", "trace"),
    };
    let mut directives = ours.to_owned();
    for library in CHATTY {
        directives.extend([",", library, "=", theirs]);
    }
    if verbosity < 6 {
        // They log every failed request and every watch that ends; the condition that watches the
        // API server says it once.
        directives.push_str(",kube_client::client=off");
    }
    directives
}

/// A panic is one log line like any other; what it ends is decided where it is caught.
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
    fn every_verbosity_is_a_filter_that_parses() {
        for verbosity in 0..=10 {
            let text = directives(verbosity);
            EnvFilter::builder()
                .parse(&text)
                .unwrap_or_else(|err| panic!("{text}: {err}"));
        }
    }
}
