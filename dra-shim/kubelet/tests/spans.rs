//! Log lines name their claim. One test, since the subscriber is the process's.
#![allow(missing_docs, reason = "a test")]

#[cfg(test)]
mod support;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::{Claims, Script, devices, prepare_request, start, unprepare_request};

const LONG: Duration = Duration::from_secs(45);

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

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
async fn every_line_of_a_claims_work_names_its_uid_also_from_blocking_threads() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .init();
    let driver = Script::preparing(|context, claim| async move {
        tracing::info!("in the driver");
        let blocking = || {
            tracing::info!("on a blocking thread");
            Ok(())
        };
        context.run_blocking(blocking).await?;
        Ok(devices(&claim))
    });
    let running = start(driver, Claims::allocated(&["a"]));
    let mut client = running.dra().await;
    let prepare = client.node_prepare_resources(prepare_request(&["a"], LONG));
    prepare.await.unwrap();
    let unprepare = client.node_unprepare_resources(unprepare_request(&["a"], LONG));
    unprepare.await.unwrap();

    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for (line, method) in [
        ("in the driver", "prepare"),
        ("on a blocking thread", "prepare"),
        ("claim done", "prepare"),
        ("claim done", "unprepare"),
    ] {
        let span = format!("claim{{uid=uid-a name=a method={method}}}");
        assert!(
            text.lines()
                .any(|found| found.contains(line) && found.contains(&span)),
            "{line} with {span} is not in\n{text}"
        );
    }
}
