//! The journal of a claim: what it changes on hardware, in the file `UID.json`.
//!
//! ```text
//! {"version":1,"namespace":"default","name":"c","uid":"…","boot":"…","undo":false,
//!  "effects":[{"gpu":"GPU-…","kind":"timeSlice","before":"Default","wanted":"Long"}]}
//! ```

use std::collections::BTreeMap;

use dra_checkpoint::ClaimRef;
use dra_common::error_chain;
use durable_file::Dir;
use gpu_api::TimeSlice;
use serde::{Deserialize, Serialize};

/// The permissions of a journal.
const MODE: u32 = 0o600;

const VERSION: u32 = 1;

/// The directory of the journals in the plugin's directory.
pub const JOURNALS: &str = "effects";

/// The end of a journal's file name.
const SUFFIX: &str = ".json";

/// What one claim changes, or has to have undone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JournalFile {
    version: u32,
    namespace: String,
    name: String,
    uid: String,
    /// The boot in which the hardware was changed.
    pub boot: String,
    /// The claim has ended.
    pub(super) undo: bool,
    /// In the order of the changes.
    pub(super) effects: Vec<Effect>,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Effect {
    /// The UUID of the GPU.
    pub(super) gpu: String,
    kind: Kind,
    /// The time slice to restore. NVIDIA documents no way to read it, so it is the driver's default.
    #[serde(with = "interval")]
    pub(super) before: TimeSlice,
    #[serde(with = "interval")]
    pub(super) wanted: TimeSlice,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Kind {
    TimeSlice,
}

// === impl JournalFile ===

impl JournalFile {
    /// A journal without effects.
    pub(super) fn new(claim: &ClaimRef, boot: &str) -> Self {
        Self {
            version: VERSION,
            namespace: claim.namespace.clone(),
            name: claim.name.clone(),
            uid: claim.uid.clone(),
            boot: boot.to_owned(),
            undo: false,
            effects: Vec::new(),
        }
    }

    /// The name of a claim's journal.
    pub fn file_name(uid: &str) -> String {
        format!("{uid}{SUFFIX}")
    }

    /// The UID of the claim if a file of this name is a journal.
    pub fn uid_of(file: &str) -> Option<&str> {
        file.strip_suffix(SUFFIX)
    }

    /// Reads the journal of a claim.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn decode(uid: &str, text: &[u8]) -> Result<Self, String> {
        match serde_json::from_slice::<Self>(text) {
            Ok(journal) if journal.version == VERSION && journal.uid == uid => Ok(journal),
            Ok(_) => Err("another version, or another claim's".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    pub(super) fn uid(&self) -> &str {
        &self.uid
    }

    /// The claim.
    pub fn claim(&self) -> ClaimRef {
        ClaimRef {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
        }
    }

    /// The UUIDs of the GPUs that are changed.
    pub fn gpus(&self) -> impl Iterator<Item = &str> {
        self.effects.iter().map(|it| it.gpu.as_str())
    }

    pub(super) fn write(&self, dir: &dyn Dir) -> Result<(), durable_file::Error> {
        // Texts and numbers always have a JSON form.
        let text = serde_json::to_vec(self).unwrap_or_default();
        dir.ensure(&Self::file_name(&self.uid), &text, MODE)
            .map(drop)
    }

    pub(super) fn remove(&self, dir: &dyn Dir) -> Result<(), durable_file::Error> {
        dir.remove(&Self::file_name(&self.uid))
    }
}

// === impl Effect ===

impl Effect {
    pub(super) fn new(gpu: &str, wanted: TimeSlice) -> Self {
        Self {
            gpu: gpu.to_owned(),
            kind: Kind::TimeSlice,
            before: TimeSlice::Default,
            wanted,
        }
    }
}

/// All journals by the UID of their claim, and what is wrong with others, one line each.
pub(super) type Journals = (BTreeMap<String, JournalFile>, Vec<String>);

pub(super) fn read_all(dir: &dyn Dir) -> Result<Journals, durable_file::Error> {
    let (mut journals, mut unreadable) = (BTreeMap::new(), Vec::new());
    for name in dir.list()? {
        let Some(uid) = JournalFile::uid_of(&name) else {
            continue; // a lock
        };
        let decoded = match dir.read(&name) {
            Ok(Some(text)) => JournalFile::decode(uid, &text),
            Ok(None) => continue, // removed meanwhile
            Err(error) => Err(error_chain(&error)),
        };
        match decoded {
            Ok(journal) => {
                journals.insert(uid.to_owned(), journal);
            }
            // One such file must not keep the other claims from their end.
            Err(reason) => unreadable.push(format!(
                "{name}: {reason}; remove this file when claim {uid} is gone"
            )),
        }
    }
    Ok((journals, unreadable))
}

/// A time slice as the value of `interval`.
mod interval {
    use gpu_api::TimeSlice;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde calls it with a reference"
    )]
    pub(super) fn serialize<S: Serializer>(value: &TimeSlice, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(value.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<TimeSlice, D::Error> {
        let text = String::deserialize(from)?;
        TimeSlice::of(&text).ok_or_else(|| D::Error::custom(format!("unknown interval {text:?}")))
    }
}
