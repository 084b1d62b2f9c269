//! What controller, IMEX daemon and kubelet plugin agree on in the driver-managed mode, where one
//! `nvidia-imex` runs on each node for good.
//!
//! ```text
//! controller ──ComputeDomainClique──> daemon ──files below IMEXD_DIR──> kubelet plugin
//!      ^                                                                      │
//!      └──────────────── attributes of the node's device ────────────────────┘
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The label of `ComputeDomainCliques` that the controller keeps for resident daemons, with the value
/// `true`. Those of the Go driver have none.
pub const DRIVER_MANAGED_LABEL: &str = "imex-dra/resident";

/// The label of `ComputeDomainCliques`, as the Go driver has it: the clique's name.
pub const CLIQUE_ID_LABEL: &str = "resource.nvidia.com/computeDomain.cliqueID";

/// The annotation of the `DaemonSet` of the daemons and of its pods that says what they are made from, as any
/// text. The controller replaces a pod that has another one than its `DaemonSet`.
pub const TEMPLATE_ANNOTATION: &str = "imex-dra/template";

/// Where the daemon of a node keeps what others on the node read, on the host and in the pods.
pub const IMEXD_DIR: &str = "/run/imex-dra/imexd";

/// The configuration of `nvidia-imex`, below [`IMEXD_DIR`].
pub const CONFIG_FILE: &str = "imexd.cfg";

/// Its node list: one host name a line, below [`IMEXD_DIR`].
pub const NODE_LIST_FILE: &str = "nodes.cfg";

/// Its command socket, which `nvidia-imex-ctl` asks, below [`IMEXD_DIR`].
pub const SOCKET_FILE: &str = "imexd.sock";

/// A [`DaemonState`] as JSON, below [`IMEXD_DIR`]. Replaced by a rename.
pub const STATE_FILE: &str = "state.json";

/// The attribute of a node's device that says that no claim has a record on the node since its daemon
/// is draining. The value is the UID of the daemon's pod.
pub const DRAINED_ATTRIBUTE: &str = "drained";

/// The attribute of a node's device that has the [`Place`] with which `nvidia-imex` runs on the node, or ran last
/// since the node started. A controller that begins to lead believes it rather than the clique's object, which
/// anybody may have edited or deleted meanwhile.
pub const PLACE_ATTRIBUTE: &str = "place";

/// Members of an IMEX domain, unless the operator says otherwise: the nodes of one NVL72 rack.
pub const DEFAULT_MAX_NODES: u32 = 18;

/// The oldest NVIDIA driver whose `nvidia-imex` accepts host names in its node list.
const FIRST_DRIVER: [u32; 3] = [570, 158, 1];

/// What to do about [`driver_too_old`].
pub const DRIVER_TOO_OLD_HINT: &str = "install NVIDIA driver 570.158.01 or later, or run nvidia-imex on the hosts (imex.mode=hostManaged)";

/// How the host names in node lists are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NameScheme {
    /// `compute-domain-daemon-HASH-NNNN`: ten hexadecimal digits of the clique's name, four decimal
    /// digits of the index. The hash keeps daemons of different cliques from taking each other for
    /// members when an address is used again.
    #[default]
    #[serde(rename = "hash10")]
    Hash10,
}

/// A place in the node lists of a clique. As text `INDEX/LENGTH`, such as `3/18`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Place {
    /// The line of the node, from 0 on; below `length`.
    pub index: u32,
    /// How many lines the list has.
    pub length: u32,
}

/// A text is no [`Place`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no place in a node list: it is INDEX/LENGTH, with an index below the length, such as 3/18"
)]
pub struct PlaceError(String);

/// What a daemon says of itself to the kubelet plugin of its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonState {
    /// `/proc/sys/kernel/random/boot_id` when it was written: one of another boot says nothing.
    pub boot_id: String,
    /// UID of the daemon's pod.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// The clique that it is a member of; empty: none.
    pub clique: String,
    /// Its index in the node list; -1: none yet.
    pub index: i64,
    /// The place in that clique with which its `nvidia-imex` runs, or ran last; not of a daemon that has not
    /// started one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Its address.
    pub address: String,
    /// Whether claims may be prepared.
    pub phase: DaemonPhase,
    /// Why not, as one sentence for people; empty if they may.
    #[serde(default)]
    pub reason: String,
}

/// Whether claims may be prepared on a daemon's node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DaemonPhase {
    /// `nvidia-imex` is not ready.
    Starting,
    /// It is.
    Ready,
    /// The node's NVIDIA driver cannot run it: [`driver_too_old`].
    DriverTooOld,
    /// The pod is about to be replaced: no claim is prepared any more, and those that are keep it.
    Draining,
}

// === impl NameScheme ===

impl NameScheme {
    /// The host name of the member `index` of `clique`.
    ///
    /// The same on all machines and in all releases: daemons compare their node lists.
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

/// Why a node with a driver of this version cannot run IMEX daemons, for people; `None` if it can, or if the version
/// is not known.
// req: DAEMON-11
pub fn driver_too_old(version: &str) -> Option<String> {
    let numbers = version.split('.').map(str::parse::<u32>);
    let numbers = numbers.collect::<Result<Vec<_>, _>>().ok()?;
    (numbers.as_slice() < FIRST_DRIVER.as_slice()).then(|| {
        format!(
            "the NVIDIA driver of this node is {version}, and nvidia-imex takes host names in its node list from driver 570.158.01 on"
        )
    })
}

/// The upper 40 bits of 64-bit FNV-1a: enough to tell the cliques of a cluster apart, and the same for ever.
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
    fn a_host_name_is_the_same_for_ever_and_differs_between_cliques() {
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
    fn a_state_is_read_as_it_was_written() {
        let json = r#"{"bootId":"b","podUID":"p","clique":"c.0","index":3,"address":"10.0.0.1","phase":"draining"}"#;
        let state: DaemonState = serde_json::from_str(json).unwrap();
        assert_eq!((state.phase, state.place), (DaemonPhase::Draining, None));
        let again = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<DaemonState>(&again).unwrap(), state);
    }

    #[test]
    fn a_place_is_read_as_it_was_written_and_other_text_is_none() {
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
