//! The journals of the GPU plugin: what each claim changes on GPUs until its end.

use std::collections::BTreeMap;

use gpu_node::JournalFile;

use super::kubelet_root::KubeletRootFacts;
use crate::host::Host;

/// What a claim changes on GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuChange {
    /// The claim as `namespace/name`.
    pub name: String,
    /// The id of the boot in which the GPUs were changed.
    pub boot_id: String,
    /// The UUIDs of the GPUs.
    pub gpus: Vec<String>,
}

/// The journals by claim UID; for one that cannot be used, the reason.
pub(super) fn read(
    host: &Host,
    root: &KubeletRootFacts,
) -> BTreeMap<String, Result<GpuChange, String>> {
    let names = host.list(&root.journal_dir());
    let uids = names.iter().filter_map(|name| JournalFile::uid_of(name));
    let journals = uids.filter_map(|uid| {
        let journal = match host.read(&root.journal(uid)) {
            Ok(text) => JournalFile::decode(uid, &text?), // `None`: removed meanwhile
            Err(error) => Err(error.to_string()),
        };
        Some((uid.to_owned(), journal.map(GpuChange::new)))
    });
    journals.collect()
}

// === impl GpuChange ===

impl GpuChange {
    fn new(journal: JournalFile) -> Self {
        let claim = journal.claim();
        Self {
            name: format!("{}/{}", claim.namespace, claim.name),
            gpus: journal.gpus().map(str::to_owned).collect(),
            boot_id: journal.boot,
        }
    }
}
