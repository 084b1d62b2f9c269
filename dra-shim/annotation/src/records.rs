//! Which pods have a channel by annotation: a file for each of their sandboxes.
//!
//! The directory is on a tmpfs, so that records live as long as containers can: not longer
//! than the boot. Whoever decides holds the lock from the read to the write, since two
//! instances of the plugin may run at once during an update, and a call that nobody waits for
//! any more may still be at work.
//!
//! # A record's life
//!
//! The record comes before the device and goes after it, so that no pod has a channel that
//! others are given. One that is too many keeps the channel from other namespaces, no longer
//! than until the next connection.
//!
//! The end of a pod is seen by its last container: a runtime that was restarted tells nothing of
//! the sandboxes that it had before (containerd up to 2.3), and of containers it does. kubelet
//! removes a container that has ended only after its successor is created.
//!
//! | when | step | if the plugin is killed right after it |
//! |---|---|---|
//! | a container is created | the lock is taken | the kernel frees the lock; no record, the container starts without the plugin |
//! | | conflicts are looked for; nothing is written if there are | the same |
//! | | a temporary file is written and synced | the next start sweeps it |
//! | | it is renamed to `SANDBOX.json` | the record is there, the container may start without its channel: then the next connection removes it |
//! | | the answer with the device is given | the record is there, as it should |
//! | another container of the pod, also a restarted one | the same; the file is left as it is | the record is there |
//! | the pod's last container, or its sandbox, is removed | under the lock the file is removed | the record is gone, as is the pod |
//! | they are removed, and the plugin is away | | the next connection removes the record |
//! | the plugin connects, the runtime names its containers | records of those that have their channel are written if they are missing, damaged or others | those left are written at the next connection |
//! | | then all other files are removed | those left are removed at the next connection |
//! | somebody damages a record | nobody is given a channel, since the damaged one may have it, until the next connection | |
//! | somebody removes one | the pod's channel counts as free until the next connection; nothing tells of it | |
//! | the machine boots | the tmpfs is empty | |

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use durable_file::{Dir, Error, OsDir};
use imex_cdi::ChannelId;

use crate::record::Record;
use crate::refused::Refused;
use crate::request::NotAChannel;

const SUFFIX: &str = ".json";
const LOCK: &str = "lock";
/// Others hold it for a few files' time.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
/// For anybody to read: `cdi-gen doctor` needs no root.
const MODE: u32 = 0o644;
/// Names of files end at 255 bytes.
const MAX_ID: usize = 200;

/// What a connection has changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settled {
    /// Records of pods that run, and had none.
    pub written: Vec<Record>,
    /// Records of pods without a container that has the channel.
    pub gone: Vec<Record>,
    /// Names of files that were no records.
    pub damaged: Vec<String>,
}

/// What the directory has.
#[derive(Debug, Default)]
struct Found {
    records: Vec<Record>,
    /// Names of files that are no records.
    damaged: Vec<String>,
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
    /// `is_free` refuses, which is asked under the lock. Pods of one namespace share a channel,
    /// as those of one job do. Idempotent.
    // req: NRI-19, NRI-20
    pub fn hold(
        &self,
        record: &Record,
        is_free: impl FnOnce() -> Result<(), Refused>,
    ) -> Result<(), Refused> {
        let file = file_name(&record.sandbox)?;
        let channel = ChannelId::new(record.channel);
        let channel = channel.map_err(|_| NotAChannel::new(&record.channel.to_string()))?;
        let _lock = self
            .dir
            .lock(LOCK, LOCK_TIMEOUT)
            .map_err(Refused::Records)?;
        let others = self.read().map_err(Refused::Records)?;
        if let Some(damaged) = others.damaged.into_iter().find(|name| *name != file) {
            return Err(Refused::Damaged(damaged));
        }
        let is_other = |other: &&Record| {
            other.channel == record.channel && other.namespace != record.namespace
        };
        if let Some(other) = others.records.iter().find(is_other) {
            let pod = format!("{}/{}", other.namespace, other.name);
            return Err(Refused::OtherNamespace { channel, pod });
        }
        is_free()?;
        let bytes = serde_json::to_vec(record).map_err(Refused::Encode)?;
        let written = self.dir.ensure(&file, &bytes, MODE);
        written.map(drop).map_err(Refused::Records)
    }

    /// The pod's sandbox is gone: so is its record. Idempotent.
    pub fn release(&self, sandbox: &str) -> Result<(), Error> {
        // After one that is being written.
        let _lock = self.dir.lock(LOCK, LOCK_TIMEOUT)?;
        self.remove(sandbox)
    }

    /// Makes the records those of the pods with a container that has its channel.
    // req: NRI-20
    pub fn settle(&self, running: &[Record]) -> Result<Settled, Error> {
        let _lock = self.dir.lock(LOCK, LOCK_TIMEOUT)?;
        let mut settled = Settled::default();
        let before = self.read()?.records;
        for record in running.iter().filter(|record| !before.contains(record)) {
            // One that cannot be a file's name was never given a channel.
            let (Ok(file), Ok(bytes)) = (file_name(&record.sandbox), serde_json::to_vec(record))
            else {
                continue;
            };
            self.dir.ensure(&file, &bytes, MODE)?;
            settled.written.push(record.clone());
        }
        let after = self.read()?;
        for record in after.records {
            if running.contains(&record) {
                continue;
            }
            self.remove(&record.sandbox)?;
            settled.gone.push(record);
        }
        for name in after.damaged {
            self.dir.remove(&name)?;
            settled.damaged.push(name);
        }
        Ok(settled)
    }

    /// Under the lock.
    fn remove(&self, sandbox: &str) -> Result<(), Error> {
        // One that cannot be a file's name was never recorded.
        file_name(sandbox).map_or(Ok(()), |file| self.dir.remove(&file))
    }

    /// All, by sandbox. What is no record is left out.
    pub fn all(&self) -> Result<Vec<Record>, Error> {
        Ok(self.read()?.records)
    }

    fn read(&self) -> Result<Found, Error> {
        let mut found = Found::default();
        for name in self.dir.list()? {
            let Some(sandbox) = name.strip_suffix(SUFFIX) else {
                continue;
            };
            // Without the lock, a file may be removed meanwhile.
            let Some(bytes) = self.dir.read(&name)? else {
                continue;
            };
            match serde_json::from_slice::<Record>(&bytes) {
                Ok(record) if record.sandbox == sandbox => found.records.push(record),
                _ => found.damaged.push(name),
            }
        }
        found.records.sort_by(|a, b| a.sandbox.cmp(&b.sandbox));
        Ok(found)
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
    use std::time::Instant;

    use durable_file::{SimDir, sim};

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
        let settled = records.settle(&[record("s4", "team-b", 4)]).unwrap();
        assert_eq!(settled.gone, [second]);
        hold(&records, &other).unwrap();
        let all = records_in(scratch.path()).unwrap();
        assert_eq!(all, [other, record("s4", "team-b", 4)]);
    }

    /// A plugin that is killed between any two steps, or a machine that loses power.
    #[test]
    fn a_crash_anywhere_leaves_a_whole_record_or_none_and_the_next_connection_what_is_true() {
        let (pod, other) = (record("s1", "team-a", 3), record("s2", "team-b", 3));
        let counts = sim::enumerate(
            |dir| {
                let records = Records::new(Arc::new(dir.clone()));
                hold(&records, &pod).unwrap();
                dir.acknowledge();
                records.release("s1").unwrap();
                dir.acknowledge();
            },
            |crash| {
                let records = Records::new(Arc::new(crash.dir.clone()));
                let found = records.all().unwrap();
                match (crash.acknowledged, &found[..]) {
                    (0 | 1, [found]) => assert_eq!(*found, pod, "{crash}"),
                    (_, []) => {}
                    _ => panic!("{crash}: {found:?}"),
                }
                // The sandbox is still there: the container is created again, and the record is
                // the pod's until it goes.
                let again = Records::new(Arc::new(crash.dir.after_kill()));
                again.settle(std::slice::from_ref(&pod)).unwrap();
                hold(&again, &pod).unwrap();
                hold(&again, &other).unwrap_err();
                // It went meanwhile.
                records.settle(&[]).unwrap();
                assert_eq!(records.all().unwrap(), [], "{crash}");
                hold(&records, &other).unwrap();
            },
        );
        assert_eq!(counts.operations, 2);
    }

    // req: NRI-20
    #[test]
    fn a_record_that_was_answered_outlives_every_later_kill() {
        let (pod, more) = (record("s1", "team-a", 3), record("s3", "team-a", 3));
        sim::enumerate(
            |dir| {
                let records = Records::new(Arc::new(dir.clone()));
                for record in [&pod, &more, &record("s4", "team-a", 4)] {
                    hold(&records, record).unwrap();
                    dir.acknowledge();
                }
                records.settle(std::slice::from_ref(&pod)).unwrap();
            },
            |crash| {
                let found = Records::new(Arc::new(crash.dir.clone())).all().unwrap();
                assert!(crash.acknowledged == 0 || found.contains(&pod), "{crash}");
            },
        );
    }

    #[test]
    fn a_step_that_fails_is_an_error_with_its_reason_and_nothing_is_given() {
        const ENOSPC: i32 = 28;
        let pod = record("s1", "team-a", 3);
        let steps = {
            let dir = SimDir::new();
            hold(&Records::new(Arc::new(dir.clone())), &pod).unwrap();
            dir.steps().len()
        };
        for step in 0..steps {
            let dir = SimDir::new();
            dir.fail_step(step, ENOSPC);
            let records = Records::new(Arc::new(dir.clone()));
            let refused = records.hold(&pod, || Ok(())).unwrap_err();
            let reason = std::error::Error::source(&refused).unwrap().to_string();
            assert!(reason.contains("s1.json") || step + 1 == steps, "{reason}");
            hold(&records, &pod).unwrap();
            assert_eq!(records.all().unwrap(), std::slice::from_ref(&pod));
        }
    }

    /// On a tmpfs, as on a node.
    #[test]
    fn ten_thousand_records_of_pods_that_are_gone_do_not_keep_a_pod_from_its_channel() {
        let scratch = tempfile::tempdir_in("/dev/shm").unwrap();
        let records = Records::new(Arc::new(OsDir::open(scratch.path()).unwrap()));
        for number in 0..10_000 {
            let sandbox = format!("{number:064x}");
            let text = serde_json::to_string(&record(&sandbox, "team-a", 3)).unwrap();
            std::fs::write(scratch.path().join(format!("{sandbox}{SUFFIX}")), text).unwrap();
        }
        let began = Instant::now();
        hold(&records, &record("s1", "team-a", 3)).unwrap();
        println!("held after {:?}", began.elapsed());
        let began = Instant::now();
        let settled = records.settle(&[record("s1", "team-a", 3)]).unwrap();
        println!("removed after {:?}", began.elapsed());
        assert_eq!(settled.gone.len(), 10_000);
    }

    // req: NRI-20
    #[test]
    fn a_damaged_record_keeps_every_channel_until_the_runtime_says_who_has_which() {
        let scratch = tempfile::tempdir().unwrap();
        let records = Records::new(Arc::new(OsDir::open(scratch.path()).unwrap()));
        let (pod, other) = (record("s1", "team-a", 3), record("s2", "team-b", 3));
        let edited = serde_json::to_vec(&record("s9", "team-b", 4)).unwrap();
        for damage in [&b"{"[..], b"", &edited] {
            hold(&records, &pod).unwrap();
            std::fs::write(scratch.path().join("s1.json"), damage).unwrap();
            for channel in [3, 4] {
                let refused = hold(&records, &record("s2", "team-b", channel)).unwrap_err();
                assert!(refused.contains("s1.json"), "{refused}");
            }
            // Another container of the pod itself.
            hold(&records, &pod).unwrap();
            std::fs::write(scratch.path().join("s1.json"), damage).unwrap();

            let settled = records.settle(std::slice::from_ref(&pod)).unwrap();
            assert_eq!(settled.written, std::slice::from_ref(&pod));
            assert_eq!((settled.gone, settled.damaged), (vec![], vec![]));
            assert!(
                hold(&records, &other)
                    .unwrap_err()
                    .contains("team-a/pod-s1")
            );
        }
        // One of a pod that does not have its channel, or is gone.
        std::fs::write(scratch.path().join("s1.json"), "{").unwrap();
        let settled = records.settle(&[]).unwrap();
        assert_eq!(settled.damaged, ["s1.json"]);
        hold(&records, &other).unwrap();
    }

    // req: NRI-20
    #[test]
    fn a_record_that_is_removed_or_edited_is_written_again_at_the_next_connection() {
        let scratch = tempfile::tempdir().unwrap();
        let records = Records::new(Arc::new(OsDir::open(scratch.path()).unwrap()));
        let pod = record("s1", "team-a", 3);
        let edited = serde_json::to_vec(&record("s1", "team-a", 4)).unwrap();
        for found in [None, Some(edited)] {
            if let Some(edited) = found {
                std::fs::write(scratch.path().join("s1.json"), edited).unwrap();
            }
            let running = std::slice::from_ref(&pod);
            let settled = records.settle(running).unwrap();
            assert_eq!(settled.written, running);
            assert!(hold(&records, &record("s2", "team-b", 3)).is_err());
            let again = records.settle(running).unwrap();
            assert_eq!(again, Settled::default());
        }
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
