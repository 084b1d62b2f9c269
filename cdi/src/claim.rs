//! A claim: its UID, its devices, and their names in CDI.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use dra_common::Advice;

use crate::{ContainerEdits, Device, DeviceName, Kind};

/// Extension of a spec file: the default of Go's library, and one of the two that
/// runtimes load.
const SPEC_EXTENSION: &str = ".yaml";

/// The UID of a `ResourceClaim`: 1 to 63 letters, digits and inner dashes.
/// Kubernetes uses UUIDs.
///
/// It becomes part of a file name and of a device name, so it has no path
/// separator, no dot, and no `_`, which separates it from the kind in the file
/// name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimUid(String);

/// A string that is not a claim UID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Advice)]
#[error(
    "claim UID {shown:?} is not valid: it must have 1 to 63 letters, digits and dashes, and must not start or end with a dash"
)]
#[advice(
    code = "claim-uid-invalid",
    hint = "pass the ResourceClaim's metadata.uid unchanged"
)]
pub struct ClaimUidError {
    /// The string, truncated to 64 characters.
    shown: String,
}

/// The content of a claim's spec: its devices, and the edits that they have in common.
///
/// ```
/// use std::sync::Arc;
///
/// use durable_file::OsDir;
/// use imex_cdi::{
///     ClaimDevice, ClaimSpec, ClaimSpecs, ClaimUid, ContainerEdits, DeviceName, DeviceNode,
///     DeviceType, Hook, Kind, Mount, Permissions,
/// };
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let cdi_root = scratch.path();
/// let specs = ClaimSpecs::new(
///     Arc::new(OsDir::open(cdi_root)?), // /var/run/cdi
///     Kind::new("lamps.example.com", "claim")?,
/// );
/// let edits = ContainerEdits {
///     device_nodes: vec![DeviceNode {
///         path: "/dev/lamp0".to_owned(),
///         device_type: Some(DeviceType::Char),
///         major: Some(240),
///         minor: Some(0),
///         permissions: Some(Permissions::READ_WRITE),
///         ..DeviceNode::default()
///     }],
///     ..ContainerEdits::default()
/// };
/// let lamp = ClaimDevice { name: DeviceName::new("lamp-0")?, edits };
/// let common = ContainerEdits {
///     env: vec!["LAMPS=/usr/lib/lamp".to_owned()],
///     mounts: vec![Mount {
///         host_path: "/usr/lib/lamp".to_owned(),
///         container_path: "/usr/lib/lamp".to_owned(),
///         options: ["ro", "nosuid", "nodev", "rbind"].map(str::to_owned).into(),
///         ..Mount::default()
///     }],
///     hooks: vec![Hook {
///         hook_name: "createContainer".to_owned(),
///         path: "/usr/bin/lamp-hook".to_owned(),
///         args: vec!["lamp-hook".to_owned(), "on".to_owned()],
///         ..Hook::default()
///     }],
///     ..ContainerEdits::default()
/// };
/// let spec = ClaimSpec { common, devices: vec![lamp] };
/// let claim = ClaimUid::new("0f6bb5a1-93a5-4d3c-8d0a-1d4f0a9a7b11")?;
/// assert!(specs.spec(&claim, &spec)?.warnings().is_empty());
/// assert!(specs.ensure(&claim, &spec)?.written);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimSpec {
    /// What a container that requests any of the devices gets, once. May be empty.
    pub common: ContainerEdits,
    /// At least one device, with unique names.
    pub devices: Vec<ClaimDevice>,
}

/// One device of a claim. Two shares of one device in one claim are one `ClaimDevice`: the name has
/// no share id, and the answer to kubelet names the same CDI device for both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimDevice {
    /// The DRA device's name, `channel-0`. The CDI device is `<uid>-<name>`.
    pub name: DeviceName,
    /// What a container that requests it gets. Must not be empty.
    pub edits: ContainerEdits,
}

// === impl ClaimUid ===

impl ClaimUid {
    const MAX_LEN: usize = 63;

    /// The UID `uid`.
    pub fn new(uid: impl Into<String>) -> Result<Self, ClaimUidError> {
        let uid = uid.into();
        let length = (1..=Self::MAX_LEN).contains(&uid.len());
        let edges = !uid.starts_with('-') && !uid.ends_with('-');
        let characters = uid.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if length && edges && characters {
            Ok(Self(uid))
        } else {
            Err(ClaimUidError {
                shown: uid.chars().take(Self::MAX_LEN + 1).collect(),
            })
        }
    }

    /// The UID as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of the claim's spec file, `<vendor>-<class>_<uid>.yaml`, as Go's
    /// driver names it. [`Spec::from_json`](crate::Spec::from_json) reads the file that this
    /// crate writes; with feature `inject`, `Spec::parse` also reads the YAML of Go's driver.
    // req: CDI-1
    pub fn spec_file_name(&self, kind: &Kind) -> String {
        format!("{}{self}{SPEC_EXTENSION}", spec_prefix(kind))
    }

    /// The claim whose spec file has this name: the inverse of
    /// [`spec_file_name`](Self::spec_file_name). `None` for any other name.
    pub fn from_spec_file_name(kind: &Kind, name: &str) -> Option<Self> {
        let uid = name
            .strip_prefix(&spec_prefix(kind))?
            .strip_suffix(SPEC_EXTENSION)?;
        Self::new(uid).ok()
    }

    /// The devices whose [CDI name](Self::device_name) is the value of a key `name` in `text`, JSON
    /// or YAML: paths and variables may have the UID, too. The last word of a text may be cut off,
    /// and does not count.
    pub(crate) fn devices_in(&self, text: &str) -> BTreeSet<DeviceName> {
        let prefix = format!("{self}-");
        let ends = |c: char| !(c.is_ascii_alphanumeric() || "-_.:".contains(c));
        let mut words: Vec<_> = text.split(ends).collect();
        words.pop();
        words.retain(|word| !matches!(*word, "" | ":"));
        let devices = words.windows(2).filter_map(|words| match words {
            ["name" | "name:", name] => name.strip_prefix(&prefix),
            _ => None,
        });
        devices
            .filter_map(|name| DeviceName::new(name).ok())
            .collect()
    }

    /// The CDI name of this claim's `device`.
    pub(crate) fn device_name(&self, device: &DeviceName) -> DeviceName {
        // The UID starts and the device ends as a device name must, and both have
        // only characters that are valid inside one.
        DeviceName::from_valid(format!("{self}-{device}"))
    }
}

impl fmt::Display for ClaimUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn spec_prefix(kind: &Kind) -> String {
    format!("{}-{}_", kind.vendor(), kind.class())
}

// === impl ClaimDevice ===

impl ClaimDevice {
    pub(crate) fn for_claim(&self, claim: &ClaimUid) -> Device {
        Device {
            name: claim.device_name(&self.name),
            annotations: BTreeMap::new(),
            container_edits: self.edits.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_a_claim_uid() {
        let text = "11111111-aaaa-4bbb-8ccc-000000000001";
        assert_eq!(ClaimUid::new(text).unwrap().as_str(), text);
        assert!(ClaimUid::new("a".repeat(63)).is_ok());
    }

    #[test]
    fn devices_are_found_in_json_yaml_and_truncated_text() {
        let claim = ClaimUid::new("0a-1b").unwrap();
        let devices = |text: &str| {
            let found = claim.devices_in(text).into_iter();
            found.map(|name| name.to_string()).collect::<Vec<_>>()
        };
        let json = r#"{"devices":[{"name":"0a-1b-channel-12","containerEdits":{}}]}"#;
        assert_eq!(devices(json), ["channel-12"]);
        assert_eq!(
            devices("devices:\n- name: 0a-1b-channel-0\n"),
            ["channel-0"]
        );
        assert_eq!(
            devices("{name: 0a-1b-b}, {\"name\" : '0a-1b-a'}, {name: 0a-1b-b}"),
            ["a", "b"]
        );
        let edits = r#"{"env":["A=0a-1b-c"],"mounts":[{"hostPath":"/mps/0a-1b-d/shm"}]}"#;
        assert_eq!(devices(edits), [""; 0]);
        // Cut off, this could have been channel 12.
        assert_eq!(devices(r#"{"devices":[{"name":"0a-1b-channel-1"#), [""; 0]);
        for other in ["0a-1bc-x", "x-0a-1b-y", "0a-1b--", "0a-1b"] {
            assert_eq!(devices(&format!("name: {other}\n")), [""; 0], "{other}");
        }
        assert_eq!(devices(""), [""; 0]);
    }

    #[test]
    fn only_the_drivers_own_names_are_spec_files_of_claims() {
        let kind = Kind::compute_domain_claim();
        let claim = ClaimUid::new("0a-1b").unwrap();
        let name = "k8s.compute-domain.nvidia.com-claim_0a-1b.yaml";
        assert_eq!(claim.spec_file_name(&kind), name);
        assert_eq!(ClaimUid::from_spec_file_name(&kind, name), Some(claim));
        for other in [
            "k8s.compute-domain.nvidia.com-claim_0a-1b.json",
            "k8s.compute-domain.nvidia.com-claim_.yaml",
            "k8s.compute-domain.nvidia.com-device_base.yaml",
            "k8s.gpu.nvidia.com-claim_0a-1b.yaml",
            ".k8s.compute-domain.nvidia.com-claim_0a-1b.yaml",
        ] {
            assert_eq!(ClaimUid::from_spec_file_name(&kind, other), None, "{other}");
        }
    }

    #[test]
    fn a_uid_cannot_leave_its_directory_or_its_part_of_the_name() {
        for text in [
            "", ".", "..", "../x", "a/b", "a_b", "a.b", "-a", "a-", "a b", "a\0", "a\n", "ä",
        ] {
            assert!(ClaimUid::new(text).is_err(), "{text:?}");
        }
        assert!(ClaimUid::new("a".repeat(64)).is_err());
    }

    #[test]
    fn an_error_quotes_only_the_start_of_a_long_string() {
        let error = ClaimUid::new("a".repeat(1 << 20)).unwrap_err();
        assert!(error.to_string().len() < 200, "{error}");
    }
}
