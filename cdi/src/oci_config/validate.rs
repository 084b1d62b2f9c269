//! Checks that a JSON document has the structure that the methods of
//! [`OciConfig`](super::OciConfig) rely on. `null` is absent, as for Go.

use serde_json::{Map, Value};

use super::{ConfigError, ContainerFacts, Expected};
use crate::Hook;

pub(super) fn facts(config: &Value) -> Result<ContainerFacts, ConfigError> {
    let config = Section::root(config)?;
    let mut facts = ContainerFacts::default();
    if let Some(process) = config.object("process")? {
        process.each("env", Section::text)?;
        if let Some(user) = process.object("user")? {
            facts.uid = user.id("uid")?;
            facts.gid = user.id("gid")?;
            user.each("additionalGids", Section::whole_id)?;
        }
    }
    if let Some(linux) = config.object("linux")? {
        linux.each("devices", |pointer, device| {
            Section::keyed(pointer, device, "path")
        })?;
        if let Some(resources) = linux.object("resources")? {
            resources.each("devices", |pointer, rule| {
                Section::new(pointer, rule).map(drop)
            })?;
        }
        if let Some(devices) = linux.object("netDevices")? {
            for name in devices.members.keys() {
                devices.object(name)?;
            }
        }
        linux.object("intelRdt")?;
    }
    config.each("mounts", |pointer, mount| {
        Section::keyed(pointer, mount, "destination")
    })?;
    if let Some(hooks) = config.object("hooks")? {
        for moment in Hook::NAMES {
            hooks.each(moment, |pointer, hook| {
                Section::new(pointer, hook).map(drop)
            })?;
        }
    }
    Ok(facts)
}

/// A JSON object and its place in the document.
struct Section<'a> {
    pointer: String,
    members: &'a Map<String, Value>,
}

impl<'a> Section<'a> {
    fn root(config: &'a Value) -> Result<Self, ConfigError> {
        Self::new(String::new(), config)
    }

    fn new(pointer: String, value: &'a Value) -> Result<Self, ConfigError> {
        match value {
            Value::Object(members) => Ok(Self { pointer, members }),
            _ => Err(fault(pointer, Expected::Object)),
        }
    }

    /// The member `key`, unless it is absent or null.
    fn get(&self, key: &str) -> Option<(String, &'a Value)> {
        let value = self.members.get(key).filter(|value| !value.is_null())?;
        let key = key.replace('~', "~0").replace('/', "~1");
        Some((format!("{}/{key}", self.pointer), value))
    }

    fn object(&self, key: &str) -> Result<Option<Self>, ConfigError> {
        self.get(key)
            .map(|(pointer, value)| Self::new(pointer, value))
            .transpose()
    }

    fn each(
        &self,
        key: &str,
        check: impl Fn(String, &'a Value) -> Result<(), ConfigError>,
    ) -> Result<(), ConfigError> {
        let Some((pointer, value)) = self.get(key) else {
            return Ok(());
        };
        let Value::Array(items) = value else {
            return Err(fault(pointer, Expected::Array));
        };
        for (index, item) in items.iter().enumerate() {
            check(format!("{pointer}/{index}"), item)?;
        }
        Ok(())
    }

    fn id(&self, key: &str) -> Result<u32, ConfigError> {
        match self.get(key) {
            Some((pointer, value)) => id(value).ok_or_else(|| fault(pointer, Expected::Id)),
            None => Ok(0),
        }
    }

    fn text(pointer: String, value: &'a Value) -> Result<(), ConfigError> {
        match value {
            Value::String(_) => Ok(()),
            _ => Err(fault(pointer, Expected::Text)),
        }
    }

    fn whole_id(pointer: String, value: &'a Value) -> Result<(), ConfigError> {
        id(value)
            .map(drop)
            .ok_or_else(|| fault(pointer, Expected::Id))
    }

    /// An object whose member `key`, if present, is a string.
    fn keyed(pointer: String, value: &'a Value, key: &str) -> Result<(), ConfigError> {
        match Self::new(pointer, value)?.get(key) {
            Some((pointer, value)) => Self::text(pointer, value),
            None => Ok(()),
        }
    }
}

pub(super) fn id(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|id| id.try_into().ok())
}

fn fault(pointer: String, expected: Expected) -> ConfigError {
    ConfigError { pointer, expected }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_user_of_the_process_is_read() {
        let config = json!({"process": {"user": {"uid": 7, "gid": 8}}});
        assert_eq!(facts(&config), Ok(ContainerFacts { uid: 7, gid: 8 }));
        for config in [
            json!({}),
            json!({"process": null, "linux": null, "mounts": null, "hooks": null}),
            json!({"process": {"env": null, "user": {"uid": null}}}),
        ] {
            assert_eq!(facts(&config), Ok(ContainerFacts::default()), "{config}");
        }
    }

    #[test]
    fn each_section_of_another_shape_is_named() {
        let cases = [
            (json!([]), "", Expected::Object),
            (json!({"process": []}), "/process", Expected::Object),
            (
                json!({"process": {"env": {}}}),
                "/process/env",
                Expected::Array,
            ),
            (
                json!({"process": {"env": ["A=b", 1]}}),
                "/process/env/1",
                Expected::Text,
            ),
            (
                json!({"process": {"user": 0}}),
                "/process/user",
                Expected::Object,
            ),
            (
                json!({"process": {"user": {"uid": -1}}}),
                "/process/user/uid",
                Expected::Id,
            ),
            (
                json!({"process": {"user": {"gid": 4_294_967_296_u64}}}),
                "/process/user/gid",
                Expected::Id,
            ),
            (
                json!({"process": {"user": {"additionalGids": ["a"]}}}),
                "/process/user/additionalGids/0",
                Expected::Id,
            ),
            (json!({"linux": 1}), "/linux", Expected::Object),
            (
                json!({"linux": {"devices": {}}}),
                "/linux/devices",
                Expected::Array,
            ),
            (
                json!({"linux": {"devices": [1]}}),
                "/linux/devices/0",
                Expected::Object,
            ),
            (
                json!({"linux": {"devices": [{"path": 1}]}}),
                "/linux/devices/0/path",
                Expected::Text,
            ),
            (
                json!({"linux": {"resources": []}}),
                "/linux/resources",
                Expected::Object,
            ),
            (
                json!({"linux": {"resources": {"devices": 1}}}),
                "/linux/resources/devices",
                Expected::Array,
            ),
            (
                json!({"linux": {"resources": {"devices": [1]}}}),
                "/linux/resources/devices/0",
                Expected::Object,
            ),
            (
                json!({"linux": {"netDevices": []}}),
                "/linux/netDevices",
                Expected::Object,
            ),
            (
                json!({"linux": {"intelRdt": "x"}}),
                "/linux/intelRdt",
                Expected::Object,
            ),
            (json!({"mounts": {}}), "/mounts", Expected::Array),
            (
                json!({"mounts": [{"destination": []}]}),
                "/mounts/0/destination",
                Expected::Text,
            ),
            (json!({"hooks": []}), "/hooks", Expected::Object),
            (
                json!({"hooks": {"poststop": {}}}),
                "/hooks/poststop",
                Expected::Array,
            ),
            (
                json!({"hooks": {"prestart": ["/x"]}}),
                "/hooks/prestart/0",
                Expected::Object,
            ),
        ];
        for (config, pointer, expected) in cases {
            let error = facts(&config).unwrap_err();
            assert_eq!(
                (error.pointer.as_str(), error.expected),
                (pointer, expected),
                "{config}"
            );
        }
    }

    #[test]
    fn a_network_device_of_another_shape_is_named() {
        let config = json!({"linux": {"netDevices": {"eth0": {}, "eth2": null, "a/b~": "eth1"}}});
        let error = facts(&config).unwrap_err();
        assert_eq!(error.pointer, "/linux/netDevices/a~1b~0");
        assert_eq!(error.expected, Expected::Object);
    }
}
