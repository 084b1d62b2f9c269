//! Which pods have a channel by annotation: a file for each of their sandboxes.
//!
//! The directory is on a tmpfs, so that records live as long as containers can: not longer
//! than the boot. Whoever decides holds the lock from the read to the write, since two
//! instances of the plugin run at once during an update.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use durable_file::{Dir, Error, OsDir};
use imex_cdi::ChannelId;
use serde::{Deserialize, Serialize};

use crate::refused::Refused;
use crate::request::NotAChannel;

/// Where the records are.
pub const RECORDS_DIR: &str = "/run/imex-dra/annotations";

const SUFFIX: &str = ".json";
const LOCK: &str = "lock";
/// Others hold it for a few files' time.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// For anybody to read: `cdi-gen doctor` needs no root.
const MODE: u32 = 0o644;
/// Names of files end at 255 bytes.
const MAX_ID: usize = 200;

/// A pod that has a channel by annotation.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The runtime's id of the pod's sandbox.
    pub sandbox: String,
    /// The pod's UID.
    pub pod_uid: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The channel's number.
    pub channel: u32,
}

/// The records of a node. Cheap to clone; blocks on the disk.
#[derive(Debug, Clone)]
pub struct Records {
    dir: Arc<dyn Dir>,
}

/// The records in a directory, for others than the plugin. What is no record is left out; no
/// directory is no record.
pub fn records_in(dir: &Path) -> Result<Vec<Record>, Error> {
    match OsDir::open(dir) {
        Ok(dir) => Records::new(Arc::new(dir)).all(),
        Err(_) if !dir.exists() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

// === impl Records ===

impl Records {
    /// In this directory.
    pub fn new(dir: Arc<dyn Dir>) -> Self {
        Self { dir }
    }

    /// Records that the pod has its channel, unless a pod of another namespace has it, or
    /// `is_free` refuses. Pods of one namespace share a channel, as those of one job do.
    /// Idempotent.
    pub fn hold(
        &self,
        record: &Record,
        is_free: impl FnOnce() -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let file = file_name(&record.sandbox)?;
        let channel = ChannelId::new(record.channel);
        let channel = channel.map_err(|_| NotAChannel(record.channel.to_string()))?;
        let failed = |error: Error| Refused::Records(error.to_string());
        let _lock = self.dir.lock(LOCK, LOCK_TIMEOUT).map_err(failed)?;
        let others = self.all().map_err(failed)?;
        let is_other = |other: &&Record| {
            other.channel == record.channel && other.namespace != record.namespace
        };
        if let Some(other) = others.iter().find(is_other) {
            let pod = format!("{}/{}", other.namespace, other.name);
            return Err(Refused::OtherNamespace { channel, pod });
        }
        is_free()?;
        let bytes =
            serde_json::to_vec(record).map_err(|error| Refused::Records(error.to_string()))?;
        self.dir.ensure(&file, &bytes, MODE).map_err(failed)?;
        Ok(())
    }

    /// The pod's sandbox is gone: so is its record. Idempotent.
    pub fn release(&self, sandbox: &str) -> Result<(), Error> {
        // One that cannot be a file's name was never recorded.
        file_name(sandbox).map_or(Ok(()), |file| self.dir.remove(&file))
    }

    /// Removes the records of all other sandboxes; returns those that it removed.
    pub fn keep_only(&self, sandboxes: &BTreeSet<&str>) -> Result<Vec<Record>, Error> {
        let _lock = self.dir.lock(LOCK, LOCK_TIMEOUT)?;
        let mut gone = self.all()?;
        gone.retain(|record| !sandboxes.contains(record.sandbox.as_str()));
        for record in &gone {
            self.release(&record.sandbox)?;
        }
        Ok(gone)
    }

    /// All, by sandbox. What is no record is left out.
    pub fn all(&self) -> Result<Vec<Record>, Error> {
        let mut records = Vec::new();
        for name in self.dir.list()? {
            let Some(sandbox) = name.strip_suffix(SUFFIX) else {
                continue;
            };
            // A file may be removed meanwhile.
            let bytes = self.dir.read(&name)?.unwrap_or_default();
            let record = serde_json::from_slice::<Record>(&bytes).ok();
            records.extend(record.filter(|record| record.sandbox == sandbox));
        }
        records.sort_by(|a, b| a.sandbox.cmp(&b.sandbox));
        Ok(records)
    }
}

fn file_name(sandbox: &str) -> Result<String, Refused> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_id = (1..=MAX_ID).contains(&sandbox.len())
        && sandbox.chars().all(is_plain)
        && sandbox.starts_with(|c: char| c.is_ascii_alphanumeric());
    if is_id {
        Ok(format!("{sandbox}{SUFFIX}"))
    } else {
        Err(Refused::Sandbox(sandbox.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(sandbox: &str, namespace: &str, channel: u32) -> Record {
        Record {
            sandbox: sandbox.to_owned(),
            pod_uid: format!("uid-{sandbox}"),
            namespace: namespace.to_owned(),
            name: format!("pod-{sandbox}"),
            channel,
        }
    }

    fn hold(records: &Records, record: &Record) -> Result<(), String> {
        let held = records.hold(record, || Ok(()));
        held.map_err(|refused| refused.to_string())
    }

    #[test]
    fn a_channel_is_of_one_namespace_at_a_time_and_free_when_its_pods_are_gone() {
        let scratch = tempfile::tempdir().unwrap();
        let records = Records::new(Arc::new(OsDir::open(scratch.path()).unwrap()));
        let (first, second) = (record("s1", "team-a", 3), record("s2", "team-a", 3));
        hold(&records, &first).unwrap();
        hold(&records, &first).unwrap();
        hold(&records, &second).unwrap();
        let other = record("s3", "team-b", 3);
        let refused = hold(&records, &other).unwrap_err();
        assert!(
            refused.contains("pod team-a/pod-s1 of another namespace"),
            "{refused}"
        );
        hold(&records, &record("s4", "team-b", 4)).unwrap();
        records.release("s1").unwrap();
        records.release("s1").unwrap();
        assert!(hold(&records, &other).is_err());
        let gone = records.keep_only(&BTreeSet::from(["s4"])).unwrap();
        assert_eq!(gone, [second]);
        hold(&records, &other).unwrap();
        let all = records_in(scratch.path()).unwrap();
        assert_eq!(all, [other, record("s4", "team-b", 4)]);
    }

    #[test]
    fn what_is_no_record_is_left_out_and_no_directory_is_none() {
        let scratch = tempfile::tempdir().unwrap();
        let text = serde_json::to_string(&record("other", "a", 1)).unwrap();
        for (name, text) in [
            ("a.json", "{"),
            ("b.json", text.as_str()),
            ("c.txt", text.as_str()),
        ] {
            std::fs::write(scratch.path().join(name), text).unwrap();
        }
        assert_eq!(records_in(scratch.path()).unwrap(), []);
        assert_eq!(records_in(&scratch.path().join("none")).unwrap(), []);
    }

    #[test]
    fn an_id_that_is_no_files_name_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let records = Records::new(Arc::new(OsDir::open(scratch.path()).unwrap()));
        for id in ["", "..", ".hidden", "a/b", &"x".repeat(201)] {
            assert!(hold(&records, &record(id, "a", 1)).is_err(), "{id}");
        }
    }
}
