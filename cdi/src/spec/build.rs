//! Making, reading and writing a spec. Every public function that returns one has
//! checked it.

use std::collections::BTreeMap;

use super::model::RawSpec;
use super::{Device, Spec, SpecError, write};
use crate::{ContainerEdits, Kind, SpecVersion};

impl Spec {
    /// A spec of `kind` that declares the lowest version that `devices` need.
    pub fn new(kind: Kind, devices: Vec<Device>) -> Result<Self, SpecError> {
        Self {
            cdi_version: SpecVersion::FIRST,
            kind,
            annotations: BTreeMap::new(),
            devices,
            container_edits: ContainerEdits::default(),
        }
        .checked_at_lowest_version()
    }

    /// The same spec with these edits for every container that requests any of its
    /// devices. Declares the lowest version that it then needs.
    pub fn with_container_edits(self, container_edits: ContainerEdits) -> Result<Self, SpecError> {
        Self {
            container_edits,
            ..self
        }
        .checked_at_lowest_version()
    }

    /// The same spec with these annotations. Declares the lowest version that it
    /// then needs.
    pub fn with_annotations(
        self,
        annotations: BTreeMap<String, String>,
    ) -> Result<Self, SpecError> {
        Self {
            annotations,
            ..self
        }
        .checked_at_lowest_version()
    }

    /// The same spec declaring `version`; an error if it needs a higher one.
    pub fn with_version(self, version: SpecVersion) -> Result<Self, SpecError> {
        Self {
            cdi_version: version,
            ..self
        }
        .checked()
    }

    /// Reads a spec from JSON with case-sensitive keys; unknown and repeated keys are
    /// errors. Runtimes accept more than that: see `Spec::parse` of the feature
    /// `inject`.
    pub fn from_json(json: &[u8]) -> Result<Self, SpecError> {
        let raw: RawSpec = serde_json::from_slice(json).map_err(SpecError::json)?;
        Self::from(raw).checked()
    }

    /// The spec in JSON, on one line without a final newline, so that no JSON or
    /// YAML reader accepts it truncated by even one byte. Characters that JSON and
    /// YAML readers treat differently are escaped.
    #[expect(
        clippy::expect_used,
        clippy::missing_panics_doc,
        reason = "serialization to memory fails only if a key is not a string or a Serialize impl fails; neither occurs in a spec"
    )]
    // req: CDI-5
    pub fn to_json(&self) -> Vec<u8> {
        write::json(self).expect("a spec always serialises")
    }

    // req: CDI-2
    fn checked_at_lowest_version(mut self) -> Result<Self, SpecError> {
        self.cdi_version = self.needed_version();
        match self.key_fault() {
            Some(fault) => Err(fault),
            None => self.checked(),
        }
    }

    // req: CDI-8
    pub(crate) fn checked(self) -> Result<Self, SpecError> {
        match self.faults().into_iter().next() {
            Some(fault) => Err(fault),
            None => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceName, DeviceNode, Mount, SpecFault};

    fn device(name: &str) -> Device {
        let edits = ContainerEdits {
            env: vec!["A=b".to_owned()],
            ..ContainerEdits::default()
        };
        Device {
            name: DeviceName::new(name).unwrap(),
            annotations: BTreeMap::new(),
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

    // req: CDI-2
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

    // req: CDI-16
    #[test]
    fn a_spec_that_declares_too_low_a_version_is_refused_with_what_needs_more() {
        let json = br#"{"cdiVersion":"0.3.0","kind":"a/b","devices":[{"name":"0","containerEdits":{"env":["A=b"]}}]}"#;
        let error = Spec::from_json(json).unwrap_err();
        assert_eq!(
            error.to_string(),
            "CDI spec of a/b declares version 0.3.0, but devices[0].name needs version 0.5.0"
        );
        assert_eq!(error.field(), Some("cdiVersion"));
    }

    #[test]
    fn a_spec_without_devices_is_refused() {
        let error = Spec::new(kind(), vec![]).unwrap_err();
        assert!(matches!(error.fault(), SpecFault::NoDevices));
    }

    // req: CDI-8
    #[test]
    fn a_device_without_edits_is_refused() {
        let mut bare = device("bare");
        bare.container_edits.env.clear();
        let error = Spec::new(kind(), vec![device("full"), bare]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "CDI device example.com/thing=bare has no edits"
        );
        assert_eq!(error.field(), Some("devices[1].containerEdits"));
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

    // req: CDI-8
    #[test]
    fn two_devices_of_one_name_are_refused() {
        let devices = vec![device("a"), device("b"), device("a")];
        let error = Spec::new(kind(), devices).unwrap_err();
        assert_eq!(
            error.to_string(),
            "CDI device example.com/thing=a is defined twice"
        );
        assert_eq!(error.field(), Some("devices[2].name"));
    }

    // req: CDI-17
    #[test]
    fn every_field_of_1_1_0_is_read_and_written_back() {
        let json = br#"{"cdiVersion":"1.1.0","kind":"a/b","annotations":{"x":"y"},"devices":[{"name":"c","annotations":{"x":"z"},"containerEdits":{"env":["A=b"],"deviceNodes":[{"path":"/dev/x","hostPath":"/dev/y","type":"u","major":1,"minor":0,"fileMode":384,"permissions":"rm","uid":0,"gid":1}],"netDevices":[{"hostInterfaceName":"eth0","name":"eth1"}],"hooks":[{"hookName":"poststop","path":"/h","args":["h"],"env":["C=d"],"timeout":1}],"mounts":[{"hostPath":"/a","containerPath":"/b","options":["ro"],"type":"bind"}],"intelRdt":{"closID":"z","l3CacheSchema":"L3:0=f","memBwSchema":"MB:0=9","schemata":["x"],"enableMonitoring":true},"additionalGids":[1]}}],"containerEdits":{"intelRdt":{}}}"#;
        let spec = Spec::from_json(json).unwrap();
        let written = spec.to_json();
        assert_eq!(str::from_utf8(&written), str::from_utf8(json));
    }

    #[test]
    fn an_annotation_that_cannot_be_read_back_is_refused() {
        let annotated = |key: String| {
            let annotations = BTreeMap::from([(key, String::new())]);
            let spec = Spec::new(kind(), vec![device("a")]).unwrap();
            spec.with_annotations(annotations)
        };
        // Six bytes of the file each, and two.
        for (one, most) in [("a", 1022), ("\u{85}", 170), ("\"", 511)] {
            let spec = annotated(one.repeat(most)).unwrap();
            assert_eq!(Spec::from_json(&spec.to_json()).unwrap(), spec);
            let error = annotated(one.repeat(most + 1)).unwrap_err();
            assert_eq!(
                error.to_string(),
                "CDI spec of example.com/thing: annotations have a key longer than 1022 bytes, including escapes"
            );
        }
        let mut odd = device("a");
        odd.annotations = BTreeMap::from([("a".repeat(1023), String::new())]);
        let error = Spec::new(kind(), vec![odd]).unwrap_err();
        assert_eq!(error.field(), Some("devices[0].annotations"));
    }

    // req: CDI-16
    #[test]
    fn unknown_and_repeated_fields_are_refused() {
        let edits = r#"{"env":["A=b"]}"#;
        for (more, of_device) in [
            (r#","x":1"#, ""),
            (r#","kind":"a/b""#, ""),
            (r#","annotations":{"a":"b","a":"c"}"#, ""),
            ("", r#","x":1"#),
            ("", r#","name":"c""#),
        ] {
            let json = format!(
                r#"{{"cdiVersion":"0.6.0","kind":"a/b","devices":[{{"name":"c","containerEdits":{edits}{of_device}}}]{more}}}"#
            );
            let error = Spec::from_json(json.as_bytes()).unwrap_err();
            assert_eq!(error.code(), "cdi-spec-malformed", "{json}");
            assert!(error.position().is_some(), "{json}");
        }
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
