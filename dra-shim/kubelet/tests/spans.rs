//! Log lines name their claim. One test, because the subscriber is global to the process.
#![allow(missing_docs, reason = "a test")]

#[cfg(test)]
mod support;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dra_kubelet::ClaimError;
use support::{Claims, Script, devices, prepare_request, start, unprepare_request};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;

const LONG: Duration = Duration::from_secs(45);

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

#[cfg(test)]
impl Log {
    fn assert_line(&self, line: &str, span: &str) {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        assert!(
            text.lines()
                .any(|found| found.contains(line) && found.contains(span)),
            "{line} with {span} is not in\n{text}"
        );
    }
}

#[cfg(test)]
impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn log_lines_name_their_claim_also_on_blocking_threads_and_with_a_filter_for_warnings() {
    let (log, warnings) = (Log::default(), Log::default());
    let (writer, warning_writer) = (log.clone(), warnings.clone());
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(move || writer.clone());
    let warning_lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(move || warning_writer.clone());
    tracing_subscriber::registry()
        .with(lines.with_filter(LevelFilter::INFO))
        .with(warning_lines.with_filter(LevelFilter::WARN))
        .init();
    let driver = Script::preparing(|context, claim| async move {
        tracing::info!("in the driver");
        if claim.id.name == "b" {
            return Err(ClaimError::permanent("broken"));
        }
        let blocking = || {
            tracing::info!("on a blocking thread");
            Ok(())
        };
        context.run_blocking(blocking).await?;
        Ok(devices(&claim))
    });
    let running = start(driver, Claims::allocated(&["a", "b"]));
    let mut client = running.dra().await;
    let prepare = client.node_prepare_resources(prepare_request(&["a", "b"], LONG));
    prepare.await.unwrap();
    let unprepare = client.node_unprepare_resources(unprepare_request(&["a"], LONG));
    unprepare.await.unwrap();

    let span =
        |name, method| format!("claim{{uid=uid-{name} namespace=ns name={name} method={method}}}");
    for (line, method) in [
        ("in the driver", "prepare"),
        ("on a blocking thread", "prepare"),
        ("claim done", "prepare"),
        ("claim done", "unprepare"),
    ] {
        log.assert_line(line, &span("a", method));
    }
    log.assert_line("claim failed error=broken", &span("b", "prepare"));
    warnings.assert_line("claim failed error=broken", &span("b", "prepare"));
}
