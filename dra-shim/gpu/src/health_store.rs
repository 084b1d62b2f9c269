//! Keeps the health of GPUs across restarts of the plugin: `health.json` in its data directory.

use std::collections::BTreeMap;
use std::path::Path;

use dra_common::error_chain;
use durable_file::{Dir as _, OsDir};
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::health::GpuHealth;

const FILE: &str = "health.json";

const MODE: u32 = 0o600;

/// What the health belongs to: another boot or a driver that was loaded again begins without it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct DriverLoad {
    /// `/proc/sys/kernel/random/boot_id`.
    pub(crate) boot: Option<String>,
    /// The inode of the loaded module's directory in sysfs; `None` if it is not loaded.
    pub(crate) module: Option<u64>,
}

/// The file's content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Kept {
    pub(crate) load: DriverLoad,
    /// By UUID.
    pub(crate) gpus: BTreeMap<String, GpuHealth>,
}

// === impl DriverLoad ===

impl DriverLoad {
    /// Whether the driver has been loaded again since `self`, or the host booted. An unknown value says nothing.
    // req: GPU-48
    pub(crate) fn has_ended(&self, now: &Self) -> bool {
        fn differ<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
            one.zip(other).is_some_and(|(one, other)| one != other)
        }
        differ(self.boot.as_ref(), now.boot.as_ref())
            || differ(self.module.as_ref(), now.module.as_ref())
    }

    /// The newer load; what is unknown now stays.
    pub(crate) fn update(&mut self, now: &Self) {
        if now.boot.is_some() {
            self.boot.clone_from(&now.boot);
        }
        if now.module.is_some() {
            self.module = now.module;
        }
    }
}

// === impl Kept ===

impl Kept {
    /// Reads the file in `data_dir`. A damaged one counts as empty.
    pub(crate) fn read(data_dir: &Path) -> Self {
        match Self::try_read(data_dir) {
            Ok(kept) => kept,
            Err(reason) => {
                warn!(
                    reason,
                    "{FILE} cannot be read; XIDs before this start are unknown"
                );
                Self::default()
            }
        }
    }

    fn try_read(data_dir: &Path) -> Result<Self, String> {
        // At the first start, the checkpoint's store may not have made it yet.
        if !data_dir.exists() {
            return Ok(Self::default());
        }
        let dir = OsDir::open(data_dir).map_err(|error| error_chain(&error))?;
        match dir.read(FILE).map_err(|error| error_chain(&error))? {
            Some(bytes) => serde_json::from_slice(&bytes).map_err(|error| error.to_string()),
            None => Ok(Self::default()),
        }
    }

    /// Writes the file. Health that is empty needs no file.
    ///
    /// # Errors
    ///
    /// Why it cannot be written.
    pub(crate) fn write(&self, data_dir: &Path) -> Result<(), String> {
        let dir = OsDir::open(data_dir).map_err(|error| error_chain(&error))?;
        let bytes = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        let written = if self.gpus.is_empty() {
            dir.remove(FILE)
        } else {
            dir.replace(FILE, &bytes, MODE).map(drop)
        };
        written.map_err(|error| error_chain(&error))
    }
}

#[cfg(test)]
mod tests {
    use gpu_inventory::Fact;

    use super::*;
    use crate::health::{Health, HealthSettings, Place};

    fn mk_kept() -> Kept {
        let mut health = Health::new(HealthSettings::default(), BTreeMap::new());
        health.xid("GPU-1", Place::default(), 79, 5);
        health.action("GPU-1", &Fact::Known(1), 6);
        Kept {
            load: DriverLoad {
                boot: Some("b".to_owned()),
                module: Some(7),
            },
            gpus: health.kept().clone(),
        }
    }

    // req: GPU-48
    #[test]
    fn what_is_written_is_read_and_a_damaged_file_counts_as_empty() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Kept::read(dir.path()), Kept::default());
        let kept = mk_kept();
        kept.write(dir.path()).unwrap();
        assert_eq!(Kept::read(dir.path()), kept);
        let file = dir.path().join(FILE);
        for damaged in ["", "{", "[]", r#"{"gpus": {"GPU-1": 3}}"#] {
            std::fs::write(&file, damaged).unwrap();
            assert_eq!(Kept::read(dir.path()), Kept::default(), "{damaged}");
        }
        Kept::default().write(dir.path()).unwrap();
        assert!(!file.exists(), "healthy GPUs need no file");
        let reason = kept.write(&dir.path().join("missing")).unwrap_err();
        assert!(reason.contains("missing"), "{reason}");
    }

    // req: GPU-48
    #[test]
    fn another_boot_and_a_loaded_driver_end_what_was_before_and_an_unloaded_one_does_not() {
        let load = |boot: &str, module| DriverLoad {
            boot: Some(boot.to_owned()),
            module,
        };
        let before = load("a", Some(1));
        for (now, ended) in [
            (load("a", Some(1)), false),
            (load("a", None), false),
            (load("a", Some(2)), true),
            (load("b", Some(1)), true),
            (DriverLoad::default(), false),
        ] {
            assert_eq!(before.has_ended(&now), ended, "{now:?}");
            let mut updated = before.clone();
            updated.update(&now);
            assert!(updated.boot.is_some() && updated.module.is_some());
        }
    }
}
