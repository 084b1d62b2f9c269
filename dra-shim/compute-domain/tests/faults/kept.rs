//! A node's records and CDI specs, read from its directories.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use compute_domain_node::DeviceGroup;
use dra_checkpoint::{CHECKPOINT_FILE, Checkpoint, ClaimRecord, State};

/// The files of a node's claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Records by claim UID, without times.
    pub(crate) records: BTreeMap<String, String>,
    /// Files in the CDI directory with their contents.
    pub(crate) specs: BTreeMap<String, String>,
    /// Other files of the plugin, including temporary ones.
    others: Vec<String>,
}

impl Kept {
    /// Reads the files of a plugin with these directories.
    pub(crate) fn read(data: &Path, cdi: &Path) -> Self {
        let records = fs::read(data.join(CHECKPOINT_FILE)).map_or_else(
            |_| BTreeMap::new(),
            |bytes| {
                let checkpoint = Checkpoint::<DeviceGroup>::decode(&bytes).unwrap();
                let of = |(uid, record): (&str, &_)| (uid.to_owned(), describe(record));
                checkpoint.claims().map(of).collect()
            },
        );
        let mut others = names(data);
        others.retain(|name| !name.contains(".sock"));
        for name in &mut others {
            // The name contains the start time of the process.
            if name.starts_with("publisher-") {
                "publisher lock".clone_into(name);
            }
        }
        let read = |name: String| {
            let content = fs::read_to_string(cdi.join(&name));
            content.ok().map(|content| (name, content))
        };
        Self {
            records,
            specs: names(cdi).into_iter().filter_map(read).collect(),
            others,
        }
    }

    /// The claims that hold a device.
    pub(crate) fn holders(&self) -> Vec<&str> {
        let records = self.records.iter();
        let completed = records.filter(|(_, record)| record.starts_with("Completed"));
        completed.map(|(uid, _)| uid.as_str()).collect()
    }

    pub(crate) fn spec_of(&self, uid: &str) -> Option<&String> {
        self.specs.get(&spec_name(uid))
    }

    /// The claims that have specs.
    pub(crate) fn claims_with_specs(&self) -> Vec<&str> {
        let names = self.specs.keys();
        names
            .filter_map(|name| name.strip_prefix(SPEC)?.strip_suffix(".yaml"))
            .collect()
    }

    /// Whether a dead process has left a temporary file or a socket. They are removed within a
    /// minute.
    pub(crate) fn has_temporaries(&self) -> bool {
        let all = self.others.iter().chain(self.specs.keys());
        all.into_iter()
            .any(|name| durable_file::is_temp_file(name) || name.starts_with(".dra-"))
    }
}

const SPEC: &str = "k8s.compute-domain.nvidia.com-claim_";

pub(crate) fn spec_name(uid: &str) -> String {
    format!("{SPEC}{uid}.yaml")
}

fn describe(record: &ClaimRecord<DeviceGroup>) -> String {
    let state = match &record.state {
        State::Started => "Started".to_owned(),
        State::Aborted { .. } => "Aborted".to_owned(),
        State::Completed(devices) => format!("Completed {devices:?}"),
    };
    let (namespace, name) = (&record.namespace, &record.name);
    format!("{state} {namespace}/{name} {:?}", record.status)
}

fn names(dir: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    let mut names: Vec<_> = entries.flatten().map(name).collect();
    names.sort_unstable();
    names
}
