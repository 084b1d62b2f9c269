//! Runs the program `injector` on a node.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::Cluster;

/// An NRI plugin on a node that gives containers the devices in their pods' annotations; ends when dropped.
pub struct Injector(Child);

// === impl Injector ===

impl Injector {
    /// Starts `program`, `env!("CARGO_BIN_EXE_injector")` of a test, and waits until the runtime has registered it.
    /// Plugins run in the order of `index`; the guard's is 90.
    ///
    /// # Errors
    /// If it does not start, or does not register.
    pub fn start(
        cluster: &Cluster,
        program: impl AsRef<Path>,
        node: u8,
        index: u8,
    ) -> Result<Self> {
        let mut child = Command::new(cluster.script_path())
            .args(["exec", "--node", &node.to_string()])
            .arg(program.as_ref())
            .args(["/var/run/nri/nri.sock", &index.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the injector does not start")?;
        let output = child.stdout.take().context("no standard output")?;
        let injector = Self(child);
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        ensure!(line == "registered\n", "the injector printed {line:?}");
        Ok(injector)
    }
}

impl Drop for Injector {
    fn drop(&mut self) {
        // It ends when its standard input is closed.
        drop(self.0.stdin.take());
        drop(self.0.wait());
    }
}
