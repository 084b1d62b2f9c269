//! The plugin as a process.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::GIVE_UP;

/// The plugin's process. Dropping it kills it.
pub(crate) struct Plugin {
    child: Child,
    log: PathBuf,
}

impl Plugin {
    /// Starts `command`, whose last `exec` is the plugin. Its output goes to `log`.
    pub(crate) fn start(mut command: Command, log: &Path) -> Self {
        let output = File::create(log).unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self {
            child,
            log: log.to_owned(),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn has_died(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) async fn until_died(&mut self) {
        let began = Instant::now();
        while !self.has_died() {
            assert!(
                began.elapsed() < GIVE_UP,
                "the plugin does not end: {}",
                self.printed()
            );
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// kill -9.
    pub(crate) fn kill(&mut self) {
        // Fails only if the process has ended by itself.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Waits until the plugin has printed all of `texts`.
    pub(crate) async fn until_printed(&mut self, texts: &[&str]) {
        let began = Instant::now();
        loop {
            let printed = self.printed();
            let missing = texts.iter().find(|text| !printed.contains(**text));
            let Some(missing) = missing else { return };
            assert!(
                !self.has_died() && began.elapsed() < GIVE_UP,
                "the plugin has not printed {missing:?}: {printed}"
            );
            sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) fn printed(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        self.kill();
    }
}
