//! What controller, IMEX daemon and kubelet plugin agree on in driver-managed mode, where each node runs one
//! permanent `nvidia-imex`.
//!
//! ```text
//! controller ──ComputeDomainClique──> daemon ──files below IMEXD_DIR──> kubelet plugin
//!      ^                                                                      │
//!      └──────────────── attributes of the node's device ────────────────────┘
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Label, with value `true`, of the `ComputeDomainCliques` that the controller writes. Those of the Go driver lack
/// it.
pub const DRIVER_MANAGED_LABEL: &str = "imex-dra/resident";

/// Label of `ComputeDomainCliques` with the clique's name, as in the Go driver.
pub const CLIQUE_ID_LABEL: &str = "resource.nvidia.com/computeDomain.cliqueID";

/// Annotation of the daemons' `DaemonSet` and its pods: an opaque identifier of the pod template. The controller
/// replaces a pod that has another value than its `DaemonSet`.
pub const TEMPLATE_ANNOTATION: &str = "imex-dra/template";

/// Directory, on the host and in the pods, in which a node's daemon keeps files for other programs on the node.
pub const IMEXD_DIR: &str = "/run/imex-dra/imexd";

/// Configuration file of `nvidia-imex` in [`IMEXD_DIR`].
pub const CONFIG_FILE: &str = "imexd.cfg";

/// Node list of `nvidia-imex` in [`IMEXD_DIR`]: one host name per line.
pub const NODE_LIST_FILE: &str = "nodes.cfg";

/// Command socket of `nvidia-imex` for `nvidia-imex-ctl`, in [`IMEXD_DIR`].
pub const SOCKET_FILE: &str = "imexd.sock";

/// [`DaemonState`] as JSON, in [`IMEXD_DIR`]. Replaced by a rename.
pub const STATE_FILE: &str = "state.json";

/// Attribute of a node's device: the UID of a draining daemon's pod. Present once no claim has a record on the node
/// since the daemon began to drain.
pub const DRAINED_ATTRIBUTE: &str = "drained";

/// Attribute of a node's device: the [`Place`] with which `nvidia-imex` runs on the node, or last ran since the node
/// booted. A new leader trusts it over the clique's object, which may have been edited or deleted meanwhile.
pub const PLACE_ATTRIBUTE: &str = "place";

/// Default maximum of members of an IMEX domain: the nodes of one NVL72 rack.
pub const DEFAULT_MAX_NODES: u32 = 18;

/// First NVIDIA driver with an `nvidia-imex` that accepts host names in its node list.
const FIRST_DRIVER: [u32; 3] = [570, 158, 1];

/// Hint for [`driver_too_old`].
pub const DRIVER_TOO_OLD_HINT: &str = "install NVIDIA driver 570.158.01 or later, or run nvidia-imex on the hosts (imex.mode=hostManaged)";

/// Format of the host names in node lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NameScheme {
    /// `compute-domain-daemon-HASH-NNNN`: ten hexadecimal digits of the clique's hash, four decimal digits of the
    /// index. The hash keeps daemons of different cliques from accepting each other as members when an address is
    /// reused.
    #[default]
    #[serde(rename = "hash10")]
    Hash10,
}

/// Position in the node list of a clique. As text `INDEX/LENGTH`, such as `3/18`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Place {
    /// Line of the node, from 0 on; below `length`.
    pub index: u32,
    /// Number of lines in the list.
    pub length: u32,
}

/// The text is not a [`Place`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a position in a node list: expected INDEX/LENGTH with INDEX below LENGTH, such as 3/18"
)]
pub struct PlaceError(String);

/// State that a daemon reports to the kubelet plugin of its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonState {
    /// `/proc/sys/kernel/random/boot_id` at the time of writing. A state of another boot is stale.
    pub boot_id: String,
    /// UID of the daemon's pod.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// Clique of which the daemon is a member; empty if none.
    pub clique: String,
    /// Index in the node list; -1 if there is none yet.
    pub index: i64,
    /// Place with which the daemon's `nvidia-imex` runs, or last ran; `None` if it has not started one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Address of the daemon.
    pub address: String,
    /// Whether claims may be prepared.
    pub phase: DaemonPhase,
    /// Why not, in one sentence; empty if they may.
    #[serde(default)]
    pub reason: String,
}

/// Whether claims may be prepared on a daemon's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DaemonPhase {
    /// `nvidia-imex` is not ready.
    Starting,
    /// `nvidia-imex` is ready.
    Ready,
    /// The node's NVIDIA driver is too old: [`driver_too_old`].
    DriverTooOld,
    /// The pod is about to be replaced: no new claims are prepared; prepared claims stay prepared.
    Draining,
}

// === impl NameScheme ===

impl NameScheme {
    /// The host name of the member `index` of `clique`.
    ///
    /// Must stay the same on all machines and in all releases, because daemons compare their node lists.
    pub fn host_name(self, clique: &str, index: u32) -> String {
        match self {
            Self::Hash10 => format!("compute-domain-daemon-{:010x}-{index:04}", hash40(clique)),
        }
    }

    /// The names of all members, in the order of the node list.
    pub fn host_names(self, clique: &str, length: u32) -> impl Iterator<Item = String> {
        (0..length).map(move |index| self.host_name(clique, index))
    }
}

impl fmt::Display for NameScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hash10 => f.write_str("hash10"),
        }
    }
}

// === impl Place ===

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.length)
    }
}

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let place = text.split_once('/').and_then(|(index, length)| {
            let (index, length) = (index.parse().ok()?, length.parse().ok()?);
            Some(Self { index, length })
        });
        let place = place.filter(|place| place.index < place.length);
        place.ok_or_else(|| PlaceError(text.to_owned()))
    }
}

impl TryFrom<String> for Place {
    type Error = PlaceError;

    fn try_from(text: String) -> Result<Self, PlaceError> {
        text.parse()
    }
}

impl From<Place> for String {
    fn from(place: Place) -> Self {
        place.to_string()
    }
}

/// Why a node with this driver version cannot run IMEX daemons; `None` if it can or if the version is unknown.
// req: DAEMON-11
pub fn driver_too_old(version: &str) -> Option<String> {
    let numbers = version.split('.').map(str::parse::<u32>);
    let numbers = numbers.collect::<Result<Vec<_>, _>>().ok()?;
    (numbers.as_slice() < FIRST_DRIVER.as_slice()).then(|| {
        format!(
            "the node's NVIDIA driver {version} is too old: nvidia-imex accepts host names in its node list since driver 570.158.01"
        )
    })
}

/// Upper 40 bits of 64-bit FNV-1a: enough to distinguish the cliques of a cluster. Must never change.
fn hash40(text: &str) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    text.bytes().fold(OFFSET, hash) >> 24
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_are_stable_and_differ_between_cliques() {
        let scheme = NameScheme::Hash10;
        let name = scheme.host_name("a1b2c3d4-e5f6-7890-abcd-ef1234567890.0", 17);
        assert_eq!(name, "compute-domain-daemon-a99fc74e23-0017");
        assert_ne!(
            name,
            scheme.host_name("a1b2c3d4-e5f6-7890-abcd-ef1234567890.1", 17)
        );
        // A label of DNS has 63 characters at most.
        assert!(name.len() <= 63);
    }

    #[test]
    fn a_node_list_has_each_index_once_in_order() {
        let names: Vec<_> = NameScheme::Hash10.host_names("c.0", 3).collect();
        let ends: Vec<_> = names
            .iter()
            .map(|name| name.rsplit_once('-').unwrap().1)
            .collect();
        assert_eq!(ends, ["0000", "0001", "0002"]);
    }

    // req: DAEMON-11
    #[test]
    fn a_driver_is_too_old_by_its_numbers_and_an_unknown_one_is_not() {
        for (version, is_too_old) in [
            ("550.163.01", true),
            ("570.86.15", true),
            ("570.158", true),
            ("570.158.01", false),
            ("570.158.1", false),
            ("580.82.07", false),
            ("1000.1", false),
            ("", false),
            ("570.x", false),
        ] {
            let reason = driver_too_old(version);
            assert_eq!(reason.is_some(), is_too_old, "{version:?}");
            let names_both = |it: &str| it.contains(version) && it.contains("570.158.01");
            assert!(reason.is_none_or(|it| names_both(&it)));
        }
    }

    #[test]
    fn a_daemon_state_survives_serialization() {
        let json = r#"{"bootId":"b","podUID":"p","clique":"c.0","index":3,"address":"10.0.0.1","phase":"draining"}"#;
        let state: DaemonState = serde_json::from_str(json).unwrap();
        assert_eq!((state.phase, state.place), (DaemonPhase::Draining, None));
        let again = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<DaemonState>(&again).unwrap(), state);
    }

    #[test]
    fn a_place_survives_serialization_and_other_text_is_rejected() {
        let place = Place {
            index: 3,
            length: 18,
        };
        let text = serde_json::to_string(&place).unwrap();
        assert_eq!(text, r#""3/18""#);
        assert_eq!(serde_json::from_str::<Place>(&text).unwrap(), place);
        for text in ["", "3", "18/18", "-1/18", "3/", "3/18/1", "a/b"] {
            assert_eq!(text.parse::<Place>(), Err(PlaceError(text.to_owned())));
        }
    }
}
