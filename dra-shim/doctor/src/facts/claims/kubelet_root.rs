//! kubelet's root directory, and other possible ones. A wrong directory has no records, which
//! does not mean that there are no claims.

use crate::dra_driver::DraDriver;
use crate::host::Host;
use crate::kubelet_state::KUBELET_STATE_FILE;
use crate::options::DEFAULT_KUBELET_ROOT;
use compute_domain_node::SHARED_MARKER;
use gpu_node::{JOURNALS, JournalFile};

/// The known root directories of kubelet: the default, also used by k3s and RKE2, then that of
/// `MicroK8s` and that of k0s.
const KNOWN_ROOTS: [&str; 3] = [
    DEFAULT_KUBELET_ROOT,
    "/var/snap/microk8s/common/var/lib/kubelet",
    "/var/lib/k0s/kubelet",
];

/// kubelet's root directory and the plugin's in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeletRootFacts {
    /// kubelet's root directory, as it was given.
    pub path: String,
    /// The driver of the plugin.
    pub driver: DraDriver,
    /// Whether it exists.
    pub exists: bool,
    /// Whether the plugin's directory in it exists; `None` if that cannot be examined.
    pub has_plugin: Option<bool>,
    /// Another directory that looks like kubelet's root, if any.
    pub other: Option<OtherRoot>,
}

/// A root directory that another kubelet uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherRoot {
    /// Its path.
    pub path: String,
    /// The path that shows it: the plugin's directory in it, or the root itself.
    pub evidence: String,
}

// === impl KubeletRootFacts ===

impl KubeletRootFacts {
    pub(super) fn read(host: &Host, path: &str, driver: DraDriver) -> Self {
        Self {
            path: path.to_owned(),
            driver,
            exists: host.exists(path),
            has_plugin: host.try_exists(&driver.plugin_dir(path)).ok(),
            other: OtherRoot::find(host, path, driver),
        }
    }

    /// The plugin's directory.
    pub(crate) fn plugin_dir(&self) -> String {
        self.driver.plugin_dir(&self.path)
    }

    /// The plugin's checkpoint.
    pub(crate) fn checkpoint(&self) -> String {
        self.driver.checkpoint(&self.path)
    }

    /// The plugin's file of aborted claims.
    pub(crate) fn aborted_file(&self) -> String {
        self.driver.aborted_file(&self.path)
    }

    /// The plugin's marker file for a shared device.
    pub(crate) fn shared_marker(&self) -> String {
        format!("{}/{SHARED_MARKER}", self.plugin_dir())
    }

    /// The directory of the plugin's journals. Only that of [`Gpu`](DraDriver::Gpu) has any.
    pub(super) fn journal_dir(&self) -> String {
        format!("{}/{JOURNALS}", self.plugin_dir())
    }

    /// The plugin's journal of a claim.
    pub(crate) fn journal(&self, uid: &str) -> String {
        format!("{}/{}", self.journal_dir(), JournalFile::file_name(uid))
    }

    /// The directory of registration sockets.
    pub(crate) fn plugin_registry(&self) -> String {
        format!("{}/plugins_registry", self.path)
    }

    /// kubelet's state file.
    pub(crate) fn kubelet_state(&self) -> String {
        kubelet_state(&self.path)
    }
}

fn kubelet_state(root: &str) -> String {
    format!("{root}/{KUBELET_STATE_FILE}")
}

// === impl OtherRoot ===

impl OtherRoot {
    /// Finds a root with the plugin's directory, else an existing one if `root` has no trace of
    /// kubelet.
    fn find(host: &Host, root: &str, driver: DraDriver) -> Option<Self> {
        let others = || KNOWN_ROOTS.into_iter().filter(|other| *other != root);
        let with_plugin = others().find_map(|path| {
            let evidence = driver.plugin_dir(path);
            let path = path.to_owned();
            host.exists(&evidence).then_some(Self { path, evidence })
        });
        let has_kubelet = host.exists(&kubelet_state(root));
        with_plugin.or_else(|| {
            let path = others().find(|other| !has_kubelet && host.exists(other))?;
            Some(Self {
                path: path.to_owned(),
                evidence: path.to_owned(),
            })
        })
    }
}
