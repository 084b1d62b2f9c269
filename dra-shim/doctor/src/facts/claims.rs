//! The claims of a node in three places: the checkpoint of each driver's plugin, the CDI
//! directories, and kubelet's state.
//!
//! Below kubelet's root directory, a checkpoint is `plugins/DRIVER/checkpoint.json`, and kubelet's
//! state is `dra_manager_state`. Their writers replace both as a whole, so they are read without a
//! lock.

pub(crate) mod checkpoint_file;
pub(crate) mod journals;
pub(crate) mod kubelet_root;
mod plugin;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gpu_api::names::{DEVICE_PLUGINS, is_device_plugins};
use imex_cdi::{ClaimUid, DirState, Registry};

use self::checkpoint_file::{
    CheckpointFile, RecordFacts, SharedDevice, Unusable, is_aborted_set_aside, is_set_aside,
};
use self::journals::GpuChange;
use self::kubelet_root::KubeletRootFacts;
use crate::dra_driver::DraDriver;
use crate::host::Host;
use crate::kubelet_state::KubeletState;

/// Changes with every boot of the host.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The claims of a driver on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimFacts {
    /// The directories from which the rest was read.
    pub root: KubeletRootFacts,
    /// The plugin's checkpoint.
    pub checkpoint: CheckpointFile,
    /// The names of damaged checkpoints that were set aside. Claims may be missing in
    /// the checkpoint until the plugin has recovered them.
    pub set_aside: Vec<String>,
    /// The names of damaged files of aborted claims that were set aside. No device depends on
    /// them.
    pub aborted_set_aside: Vec<String>,
    /// Whether claims share the node's device.
    pub sharing: SharedDevice,
    /// The host's boot id; `None` if it cannot be read.
    pub boot_id: Option<String>,
    /// Whether the plugin has a registration socket; `None` if kubelet's
    /// registry cannot be listed.
    pub is_registered: Option<bool>,
    /// Whether this node has a process or a pod of the driver's plugin, NVIDIA's included.
    pub plugin_is_deployed: bool,
    /// Sockets of the plugin on which no process listens; empty if unknown.
    pub stale_sockets: Vec<String>,
    /// The sockets of NVIDIA's device plugin on which a process listens, for
    /// [`Gpu`](DraDriver::Gpu); empty if unknown.
    pub device_plugin_sockets: Vec<String>,
    /// What claims change on GPUs, by claim UID, according to the plugin's journals; for a journal
    /// that cannot be used, the reason.
    pub gpu_changes: BTreeMap<String, Result<GpuChange, String>>,
    /// The CDI specs of claims.
    pub specs: ClaimSpecFiles,
    /// kubelet's state.
    pub kubelet: KubeletStateFile,
}

/// The CDI specs of claims.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimSpecFiles {
    /// The spec's path of each claim UID.
    pub paths: BTreeMap<String, String>,
    /// Whether there may be others, because a directory could not be listed.
    pub is_incomplete: bool,
}

/// kubelet's state file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KubeletStateFile {
    /// It was read.
    Read(KubeletState),
    /// It does not exist.
    Absent,
    /// It cannot be read.
    Unreadable(Unusable),
    /// It is damaged, for this reason; kubelet cannot read it either.
    Damaged(String),
    /// Its format is unknown, for this reason.
    Unknown(String),
}

/// The host's boot id; `None` if it cannot be read. A claim of another boot is not prepared any
/// more.
pub fn boot_id(host: &Host) -> Option<String> {
    let id = host.text_if_readable(BOOT_ID)?;
    Some(id.trim().to_owned())
}

// === impl ClaimFacts ===

impl ClaimFacts {
    // req: DOCTOR-15
    /// Reads the claims of each driver on the host; those of the first driver if there is none, or
    /// if this process cannot see any.
    pub(crate) fn read_all(host: &Host, registry: &Registry, kubelet_root: &str) -> Vec<Self> {
        let read = |driver| Self::read(host, registry, kubelet_root, driver);
        let mut all = Vec::from(DraDriver::ALL.map(read));
        let on_host = all.iter().filter(|it| it.is_on_host()).count();
        if on_host == 0 {
            all.truncate(1);
        } else {
            all.retain(Self::is_on_host);
        }
        all
    }

    fn read(host: &Host, registry: &Registry, kubelet_root: &str, driver: DraDriver) -> Self {
        let root = KubeletRootFacts::read(host, kubelet_root, driver);
        let names = host.list(&root.plugin_dir());
        let having = |test: fn(&str) -> bool| {
            let found = names.iter().filter(|name| test(name));
            found.cloned().collect()
        };
        Self {
            checkpoint: CheckpointFile::read(host, &root.path, driver),
            set_aside: having(is_set_aside),
            aborted_set_aside: having(is_aborted_set_aside),
            sharing: SharedDevice::read(host, &root),
            boot_id: boot_id(host),
            is_registered: is_registered(host, &root),
            plugin_is_deployed: plugin::is_deployed(host, &root.path, driver),
            stale_sockets: stale_sockets(host, &root),
            device_plugin_sockets: device_plugin_sockets(host, driver),
            gpu_changes: journals::read(host, &root),
            specs: ClaimSpecFiles::read(host, registry, driver),
            kubelet: KubeletStateFile::read(host, &root),
            root,
        }
    }

    /// The driver.
    pub(crate) fn driver(&self) -> DraDriver {
        self.root.driver
    }

    /// Whether the driver has left a trace on the host.
    fn is_on_host(&self) -> bool {
        let of_kubelet = self.kubelet_state();
        self.root.has_plugin == Some(true)
            || self.is_registered == Some(true)
            || !self.specs.paths.is_empty()
            || of_kubelet.is_some_and(|state| !state.claims.is_empty())
    }

    /// A table with a line for each claim: its driver, its state in each of the three places, and
    /// the channel and domain of its record, but no other parameters of the claim.
    pub fn table(&self) -> String {
        let mut lines: BTreeMap<&str, [&str; 3]> = BTreeMap::new();
        for (uid, record) in self.records().into_iter().flatten() {
            lines.entry(uid).or_insert(["-"; 3])[0] = record.state;
        }
        for uid in self.specs.paths.keys() {
            lines.entry(uid).or_insert(["-"; 3])[1] = "spec";
        }
        for (uid, claim) in self.kubelet_state().iter().flat_map(|state| &state.claims) {
            let state = if claim.prepared { "prepared" } else { "asked" };
            lines.entry(uid).or_insert(["-"; 3])[2] = state;
        }
        let driver = self.driver().name();
        let mut text = String::new();
        for (uid, [checkpoint, spec, kubelet]) in lines {
            let record = self.records().and_then(|records| records.get(uid));
            let channels = joined(record.into_iter().flat_map(RecordFacts::numbers));
            let domains = joined(record.into_iter().flat_map(RecordFacts::domains));
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{uid} driver:{driver} checkpoint:{checkpoint} cdi:{spec} kubelet:{kubelet} channel:{channels} domain:{domains}"
            );
        }
        text
    }

    /// The records of the checkpoint, if it was read.
    pub(crate) fn records(&self) -> Option<&BTreeMap<String, RecordFacts>> {
        match &self.checkpoint {
            CheckpointFile::Read(checkpoint) => Some(&checkpoint.records),
            CheckpointFile::Absent | CheckpointFile::Unreadable(_) => None,
        }
    }

    /// Whether the kubelet plugin is on this node, or has left files that need it.
    pub(crate) fn has_plugin(&self) -> bool {
        self.root.has_plugin == Some(true) && !self.is_uninstalled()
    }

    /// Whether the plugin was uninstalled: only its directory is left, which Helm does not
    /// remove.
    pub(crate) fn is_uninstalled(&self) -> bool {
        let has_record = match &self.checkpoint {
            CheckpointFile::Read(checkpoint) => !checkpoint.records.is_empty(),
            CheckpointFile::Absent => false,
            CheckpointFile::Unreadable(_) => true,
        };
        let kubelet_has_claim = match &self.kubelet {
            KubeletStateFile::Read(state) => !state.claims.is_empty(),
            KubeletStateFile::Absent => false,
            _ => true,
        };
        self.root.has_plugin == Some(true)
            && self.is_registered == Some(false)
            && !self.plugin_is_deployed
            && !has_record
            && !kubelet_has_claim
            && self.set_aside.is_empty()
            && self.specs.paths.is_empty()
    }

    /// The checkpoint's boot and the host's, if both are known and differ.
    pub(crate) fn earlier_boot(&self) -> Option<(&str, &str)> {
        let CheckpointFile::Read(checkpoint) = &self.checkpoint else {
            return None;
        };
        let recorded = checkpoint.boot_id.as_deref()?;
        let current = self.boot_id.as_deref()?;
        (recorded != current).then_some((recorded, current))
    }

    /// Whether kubelet may have the claim. One that kubelet no longer has holds nothing, and has a
    /// finding of its own.
    pub(crate) fn may_be_live(&self, uid: &str) -> bool {
        let state = self.kubelet_state();
        state.is_none_or(|state| state.claims.contains_key(uid))
    }

    /// kubelet's state, if it was read.
    pub(crate) fn kubelet_state(&self) -> Option<&KubeletState> {
        match &self.kubelet {
            KubeletStateFile::Read(state) => Some(state),
            _ => None,
        }
    }
}

/// The items, separated by commas; `-` for none.
fn joined(items: impl Iterator<Item = impl ToString>) -> String {
    let items: Vec<String> = items.map(|item| item.to_string()).collect();
    if items.is_empty() {
        "-".to_owned()
    } else {
        items.join(",")
    }
}

/// Whether a socket in kubelet's plugin registry is the driver's.
fn is_registered(host: &Host, root: &KubeletRootFacts) -> Option<bool> {
    let is_ours = |name: &String| name.contains(root.driver.name());
    let names = host.list_all(&root.plugin_registry())?;
    Some(names.iter().any(is_ours))
}

/// The registration sockets, else the sockets for claims, if none of them has a listener. A
/// socket that an earlier process left beside a live one is harmless.
fn stale_sockets(host: &Host, root: &KubeletRootFacts) -> Vec<String> {
    let of_registry = plugin::without_listener(host, &root.plugin_registry(), |name| {
        name.starts_with(root.driver.name()) && name.ends_with("reg.sock")
    });
    let of_claims = || {
        plugin::without_listener(host, &root.plugin_dir(), |name| {
            name.starts_with("dra") && name.strip_suffix(".sock").is_some()
        })
    };
    of_registry.or_else(of_claims).unwrap_or_default()
}

fn device_plugin_sockets(host: &Host, driver: DraDriver) -> Vec<String> {
    if driver != DraDriver::Gpu {
        return vec![];
    }
    plugin::with_listener(host, DEVICE_PLUGINS, is_device_plugins)
}

// === impl ClaimSpecFiles ===

impl ClaimSpecFiles {
    fn read(host: &Host, registry: &Registry, driver: DraDriver) -> Self {
        let kind = driver.claim_kind();
        let mut specs = Self::default();
        for dir in registry.dirs() {
            let names = match dir.state {
                DirState::Skipped(_) => None,
                DirState::Listed | DirState::Absent => host.list_all(&host.host_name(&dir.path)),
            };
            specs.is_incomplete |= names.is_none();
            for name in names.into_iter().flatten() {
                if let Some(uid) = ClaimUid::from_spec_file_name(&kind, &name) {
                    let path = host.host_name(&dir.path.join(name));
                    specs.paths.insert(uid.to_string(), path);
                }
            }
        }
        specs
    }
}

// === impl KubeletStateFile ===

impl KubeletStateFile {
    fn read(host: &Host, root: &KubeletRootFacts) -> Self {
        let bytes = match host.read(&root.kubelet_state()) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Self::Absent,
            Err(error) => return Self::Unreadable(Unusable::from_refusal(&error)),
        };
        // A file of a newer kubelet may have its claims in another place: it never counts as
        // a file without claims.
        match KubeletState::decode(&bytes, root.driver) {
            Ok(state) => Self::Read(state),
            Err(error) if error.is_damage() => Self::Damaged(error.to_string()),
            Err(error) => Self::Unknown(error.to_string()),
        }
    }

    /// Whether it exists, but its claims are unknown.
    pub(crate) fn is_unusable(&self) -> bool {
        match self {
            Self::Read(_) | Self::Absent => false,
            Self::Unreadable(_) | Self::Damaged(_) | Self::Unknown(_) => true,
        }
    }
}
