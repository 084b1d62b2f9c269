//! The CDI spec as written to disk.
//!
//! Keys are those of the CDI specification (`specs-go/config.go`), left out
//! when empty as Go's `omitempty` does, with one exception: a device number 0
//! is written. The model holds what this crate writes; reading tolerates other
//! fields and drops them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{ContainerEdits, DeviceName, EditFault, Kind, SpecVersion};

/// A CDI spec that a runtime loads: at least one device, unique names, no
/// device without edits, no edits that the CDI library refuses, and a version
/// that has everything the spec uses.
///
/// Whether a container then starts is more than a spec can say: nobody checks
/// that paths are absolute or exist, or that a device number means anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    cdi_version: SpecVersion,
    kind: Kind,
    devices: Vec<Device>,
    #[serde(skip_serializing_if = "ContainerEdits::is_empty")]
    container_edits: ContainerEdits,
}

/// One device that a container can ask for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// Unique within the kind, on the whole host.
    pub name: DeviceName,
    /// What the container gets. Never empty in a [`Spec`].
    pub container_edits: ContainerEdits,
}

/// A spec that a runtime would refuse.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// A spec without devices.
    #[error("CDI spec of {kind} has no devices")]
    NoDevices {
        /// The spec's kind.
        kind: Kind,
    },
    /// A device that would change nothing in a container.
    #[error("CDI device {kind}={device} has no edits")]
    NoEdits {
        /// The spec's kind.
        kind: Kind,
        /// The device.
        device: DeviceName,
    },
    /// Edits that the CDI library refuses, and the whole spec with them.
    #[error("{}: containerEdits.{field} {fault}", owner(kind, device.as_ref()))]
    Edits {
        /// The spec's kind.
        kind: Kind,
        /// The device whose edits they are; `None` for those of the spec.
        device: Option<DeviceName>,
        /// Path of the field in the edits' JSON, `hooks[0].hookName`.
        // Boxed, because an error is part of every result.
        field: Box<str>,
        /// What is wrong with it.
        fault: EditFault,
    },
    /// Two devices of one name.
    #[error("CDI device {kind}={device} is defined twice")]
    DuplicateDevice {
        /// The spec's kind.
        kind: Kind,
        /// The device.
        device: DeviceName,
    },
    /// The declared version lacks something that the spec uses.
    #[error("CDI spec of {kind} says version {declared} but uses what {needed} added")]
    VersionTooLow {
        /// The spec's kind.
        kind: Kind,
        /// Its `cdiVersion`.
        declared: SpecVersion,
        /// The lowest version that would do.
        needed: SpecVersion,
    },
    /// Not JSON, or JSON of another shape.
    #[error("not a CDI spec in JSON")]
    Json(#[source] serde_json::Error),
}

// === impl Spec ===

impl Spec {
    /// A spec of `kind` with the lowest version that `devices` need.
    pub fn new(kind: Kind, devices: Vec<Device>) -> Result<Self, SpecError> {
        let mut spec = Self {
            cdi_version: SpecVersion::V0_3_0,
            kind,
            devices,
            container_edits: ContainerEdits::default(),
        };
        spec.check()?;
        spec.cdi_version = spec.needed_version();
        Ok(spec)
    }

    /// Reads a spec from JSON. Unknown fields are dropped.
    pub fn from_json(json: &[u8]) -> Result<Self, SpecError> {
        let RawSpec {
            cdi_version: declared,
            kind,
            devices,
            container_edits,
        } = serde_json::from_slice(json).map_err(SpecError::Json)?;
        let spec = Self {
            cdi_version: declared,
            kind,
            devices,
            container_edits,
        };
        spec.check()?;
        let needed = spec.needed_version();
        if declared < needed {
            return Err(SpecError::VersionTooLow {
                kind: spec.kind,
                declared,
                needed,
            });
        }
        Ok(spec)
    }

    /// The spec in JSON: one line without a final newline, so that its last
    /// byte is the brace without which no JSON or YAML reader accepts it.
    #[expect(
        clippy::expect_used,
        clippy::missing_panics_doc,
        reason = "the model has neither maps nor failing Serialize impls, the only ways to fail in memory"
    )]
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a spec always serialises")
    }

    /// The version that the spec states.
    pub fn version(&self) -> SpecVersion {
        self.cdi_version
    }

    /// The kind of all its devices.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Its devices, in file order.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// What any container gets that asks for one of the devices.
    pub fn container_edits(&self) -> &ContainerEdits {
        &self.container_edits
    }

    fn check(&self) -> Result<(), SpecError> {
        let kind = || self.kind.clone();
        if self.devices.is_empty() {
            return Err(SpecError::NoDevices { kind: kind() });
        }
        let mut seen = BTreeSet::new();
        for Device {
            name,
            container_edits,
        } in &self.devices
        {
            let device = name.clone();
            if container_edits.is_empty() {
                return Err(SpecError::NoEdits {
                    kind: kind(),
                    device,
                });
            }
            self.check_edits(Some(name), container_edits)?;
            if !seen.insert(name) {
                return Err(SpecError::DuplicateDevice {
                    kind: kind(),
                    device,
                });
            }
        }
        self.check_edits(None, &self.container_edits)
    }

    fn check_edits(
        &self,
        device: Option<&DeviceName>,
        edits: &ContainerEdits,
    ) -> Result<(), SpecError> {
        edits.check().map_err(|(field, fault)| SpecError::Edits {
            kind: self.kind.clone(),
            device: device.cloned(),
            field: field.into(),
            fault,
        })
    }

    /// The lowest version that has every feature in use, never below 0.3.0,
    /// which is the base (`SPEC.md`, "Released versions").
    fn needed_version(&self) -> SpecVersion {
        let class = if self.kind.class().contains('.') {
            SpecVersion::V0_6_0
        } else {
            SpecVersion::V0_3_0
        };
        self.devices
            .iter()
            .map(Device::needed_version)
            .chain([class, self.container_edits.needed_version()])
            .max()
            .unwrap_or(class)
    }
}

/// A spec as it stands in a file, not yet checked.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSpec {
    cdi_version: SpecVersion,
    kind: Kind,
    devices: Vec<Device>,
    #[serde(default)]
    container_edits: ContainerEdits,
}

impl Device {
    fn needed_version(&self) -> SpecVersion {
        let name = if self.name.starts_with_digit() {
            SpecVersion::V0_5_0
        } else {
            SpecVersion::V0_3_0
        };
        name.max(self.container_edits.needed_version())
    }
}

// === impl SpecError ===

impl SpecError {
    /// A stable word for events and metrics.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoDevices { .. } => "cdi-spec-no-devices",
            Self::NoEdits { .. } => "cdi-device-no-edits",
            Self::Edits { .. } => "cdi-edits-invalid",
            Self::DuplicateDevice { .. } => "cdi-device-duplicate",
            Self::VersionTooLow { .. } => "cdi-version-too-low",
            Self::Json(_) => "cdi-spec-malformed",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoDevices { .. } => "define at least one device, or write no spec",
            Self::NoEdits { .. } => "give the device an environment variable, node, hook or mount",
            Self::Edits { fault, .. } => fault.hint(),
            Self::DuplicateDevice { .. } => "give each device a name of its own",
            Self::VersionTooLow { .. } => "raise cdiVersion to the version that the error names",
            Self::Json(_) => "let the driver that owns the file write it again",
        }
    }
}

/// Whose edits an error speaks of.
fn owner(kind: &Kind, device: Option<&DeviceName>) -> String {
    match device {
        Some(device) => format!("CDI device {kind}={device}"),
        None => format!("CDI spec of {kind}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceNode, Mount};

    fn device(name: &str) -> Device {
        let edits = ContainerEdits {
            env: vec!["A=b".to_owned()],
            ..ContainerEdits::default()
        };
        Device {
            name: DeviceName::new(name).unwrap(),
            container_edits: edits,
        }
    }

    fn kind() -> Kind {
        "example.com/thing".parse().unwrap()
    }

    fn version_of(kind: &str, change: impl FnOnce(&mut Device)) -> SpecVersion {
        let mut device = device("thing");
        change(&mut device);
        let spec = Spec::new(kind.parse().unwrap(), vec![device]).unwrap();
        let read = Spec::from_json(&spec.to_json()).unwrap();
        assert_eq!(read, spec);
        spec.version()
    }

    fn node() -> DeviceNode {
        serde_json::from_str(r#"{"path":"/dev/x","hostPath":"/dev/y"}"#).unwrap()
    }

    fn mount(fs_type: Option<&str>) -> Mount {
        Mount {
            host_path: "/a".to_owned(),
            container_path: "/b".to_owned(),
            options: vec!["ro".to_owned()],
            fs_type: fs_type.map(str::to_owned),
        }
    }

    #[test]
    fn a_spec_states_the_lowest_version_that_has_what_it_uses() {
        use SpecVersion as V;
        let thing = "example.com/thing";
        assert_eq!(version_of(thing, |_| ()), V::V0_3_0);
        assert_eq!(
            version_of(thing, |d| d.container_edits.mounts = vec![mount(None)]),
            V::V0_3_0
        );
        assert_eq!(
            version_of(thing, |d| d.container_edits.mounts =
                vec![mount(Some("bind"))]),
            V::V0_4_0
        );
        assert_eq!(
            version_of(thing, |d| d.name = DeviceName::new("0").unwrap()),
            V::V0_5_0
        );
        assert_eq!(
            version_of(thing, |d| d.container_edits.device_nodes = vec![node()]),
            V::V0_5_0
        );
        assert_eq!(version_of("example.com/thing.v2", |_| ()), V::V0_6_0);
    }

    #[test]
    fn a_spec_that_declares_too_low_a_version_is_refused() {
        let json = br#"{"cdiVersion":"0.3.0","kind":"a/b","devices":[{"name":"0","containerEdits":{"env":["A=b"]}}]}"#;
        assert!(matches!(
            Spec::from_json(json),
            Err(SpecError::VersionTooLow { .. })
        ));
    }

    #[test]
    fn a_spec_without_devices_is_refused() {
        assert!(matches!(
            Spec::new(kind(), vec![]),
            Err(SpecError::NoDevices { .. })
        ));
    }

    #[test]
    fn a_device_without_edits_is_refused() {
        let mut bare = device("bare");
        bare.container_edits.env.clear();
        assert!(matches!(
            Spec::new(kind(), vec![device("full"), bare]),
            Err(SpecError::NoEdits { device, .. }) if device.as_str() == "bare"
        ));
    }

    #[test]
    fn edits_that_the_cdi_library_refuses_are_named_with_device_and_field() {
        let mut odd = device("odd");
        odd.container_edits.env.push("B".to_owned());
        let error = Spec::new(kind(), vec![device("fine"), odd]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "CDI device example.com/thing=odd: containerEdits.env[1] is not NAME=value"
        );
        assert_eq!(error.code(), "cdi-edits-invalid");
        assert!(error.hint().contains("NAME=value"));
    }

    #[test]
    fn edits_of_the_spec_itself_are_checked_when_it_is_read() {
        let json = br#"{"cdiVersion":"0.3.0","kind":"a/b","devices":[{"name":"c","containerEdits":{"env":["A=b"]}}],
            "containerEdits":{"deviceNodes":[{"path":""}]}}"#;
        let error = Spec::from_json(json).unwrap_err();
        assert_eq!(
            error.to_string(),
            "CDI spec of a/b: containerEdits.deviceNodes[0].path is empty"
        );
    }

    #[test]
    fn two_devices_of_one_name_are_refused() {
        assert!(matches!(
            Spec::new(kind(), vec![device("a"), device("b"), device("a")]),
            Err(SpecError::DuplicateDevice { device, .. }) if device.as_str() == "a"
        ));
    }

    #[test]
    fn unknown_fields_are_passed_over() {
        let json = br#"{"cdiVersion":"v1.1.0","kind":"a/b","annotations":{"x":"y"},"devices":[
            {"name":"c","annotations":{},"containerEdits":{"env":["A=b"],"additionalGids":[1],
            "netDevices":[{"hostInterfaceName":"eth0","name":"eth1"}]}}],
            "containerEdits":{"intelRdt":{"closID":"z"}}}"#;
        let spec = Spec::from_json(json).unwrap();
        assert_eq!(spec.version(), SpecVersion::V1_1_0);
        assert!(spec.container_edits().is_empty());
    }

    #[test]
    fn names_are_checked_when_a_spec_is_read() {
        let json = |kind: &str, name: &str| {
            format!(
                r#"{{"cdiVersion":"0.6.0","kind":"{kind}","devices":[{{"name":"{name}","containerEdits":{{"env":["A=b"]}}}}]}}"#
            )
        };
        assert!(Spec::from_json(json("a/b", "c").as_bytes()).is_ok());
        assert!(Spec::from_json(json("a", "c").as_bytes()).is_err());
        assert!(Spec::from_json(json("a/b", "c/d").as_bytes()).is_err());
    }
}
