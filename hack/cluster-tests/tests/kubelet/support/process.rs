//! `steady-driver` as a process, for tests that kill their driver.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};

use super::{NODE, Node, until};

/// A running driver. Dropping it kills the process.
pub(crate) struct Process {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Node {
    /// Starts the scenario's driver with one device; `registry` overrides kubelet's.
    pub(crate) fn spawn(&self, device: &str, registry: Option<&Path>) -> Result<Process> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_steady-driver"))
            .args([&self.driver, NODE, device])
            .args(registry)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("steady-driver does not start")?;
        let output = child.stdout.take().context("no standard output")?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                log.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(line);
            }
        });
        Ok(Process { child, lines })
    }

    /// As [`Node::spawn`], and waits until kubelet has registered it.
    pub(crate) async fn spawn_registered(&self, device: &str) -> Result<Process> {
        let process = self.spawn(device, None)?;
        process.until_printed("registered").await;
        Ok(process)
    }
}

impl Process {
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) async fn until_printed(&self, line: &str) {
        until(&format!("the driver prints {line:?}"), async || {
            let lines = self.lines();
            ensure!(lines.iter().any(|it| it == line), "it printed {lines:?}");
            Ok(())
        })
        .await;
    }

    /// Kills it with SIGKILL, so that its socket files stay.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends SIGTERM and waits until it has ended.
    pub(crate) async fn terminate(&mut self) -> Result<()> {
        let id = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status()?;
        until("the driver has ended", async || {
            ensure!(self.child.try_wait()?.is_some(), "it runs");
            Ok(())
        })
        .await;
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.kill());
    }
}
