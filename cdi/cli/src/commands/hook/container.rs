//! The parts of a container's config that can request a channel.

use std::collections::BTreeMap;
use std::path::Path;

use imex_cdi::{ContainerView, DeviceView, MountView, RuleView};
use serde::Deserialize;

use crate::input::read_config;
use crate::outcome::{Failure, Outcome};

/// Annotation keys for the pod's UID, its namespace and the container's name: containerd, CRI-O.
const POD_ANNOTATIONS: [[&str; 3]; 2] = [
    [
        "io.kubernetes.cri.sandbox-uid",
        "io.kubernetes.cri.sandbox-namespace",
        "io.kubernetes.cri.container-name",
    ],
    [
        "io.kubernetes.pod.uid",
        "io.kubernetes.pod.namespace",
        "io.kubernetes.container.name",
    ],
];

/// `config.json` of a bundle.
#[derive(Debug, Deserialize)]
pub(super) struct Container {
    process: Option<Process>,
    annotations: Option<BTreeMap<String, String>>,
    mounts: Option<Vec<Mount>>,
    linux: Option<Linux>,
}

/// The pod of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pod<'a> {
    pub(super) uid: &'a str,
    /// Empty if the runtime does not report it.
    pub(super) namespace: &'a str,
}

#[derive(Debug, Deserialize)]
struct Process {
    env: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct Mount {
    destination: String,
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Linux {
    devices: Option<Vec<Device>>,
    resources: Option<Resources>,
}

#[derive(Debug, Deserialize)]
struct Device {
    path: String,
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    major: i64,
    #[serde(default)]
    minor: i64,
}

#[derive(Debug, Deserialize)]
struct Resources {
    devices: Option<Vec<Rule>>,
}

#[derive(Debug, Deserialize)]
struct Rule {
    #[serde(default)]
    allow: bool,
    #[serde(rename = "type")]
    kind: Option<String>,
    major: Option<i64>,
    minor: Option<i64>,
    access: Option<String>,
}

// === impl Container ===

impl Container {
    pub(super) fn read(bundle: &Path) -> Result<Self, Failure> {
        let path = bundle.join("config.json");
        let bytes = read_config(&path)?;
        serde_json::from_slice(&bytes).map_err(|error| {
            let what = format!("{} is not JSON", path.display());
            Failure::caused_by(Outcome::Io, what, &error)
                .hint("pass the config.json of an OCI bundle")
        })
    }

    /// Returns the pod; `None` for a container outside Kubernetes.
    pub(super) fn pod(&self) -> Option<Pod<'_>> {
        let [uid, namespace, _] = *self.pod_annotations()?;
        Some(Pod {
            uid: self.annotation(uid)?,
            namespace: self.annotation(namespace).unwrap_or_default(),
        })
    }

    pub(super) fn view(&self) -> ContainerView<'_> {
        let name = self
            .pod_annotations()
            .and_then(|[.., name]| self.annotation(name));
        let env = self
            .process
            .iter()
            .flat_map(|process| process.env.iter().flatten());
        let annotations = self.annotations.iter().flatten();
        let linux = || self.linux.iter();
        let devices = linux().flat_map(|linux| linux.devices.iter().flatten());
        let resources = linux().flat_map(|linux| &linux.resources);
        let rules = resources.flat_map(|resources| resources.devices.iter().flatten());
        let mounts = self.mounts.iter().flatten();
        ContainerView {
            name: name.unwrap_or_default(),
            env: env.map(String::as_str).collect(),
            annotations: annotations
                .map(|(key, value)| (key.as_str(), value.as_str()))
                .collect(),
            // The runtime has already resolved them to devices.
            cdi_names: Vec::new(),
            devices: devices
                .map(|device| DeviceView {
                    path: &device.path,
                    device_type: &device.kind,
                    major: device.major,
                    minor: device.minor,
                })
                .collect(),
            rules: rules
                .filter(|rule| rule.allow)
                .map(|rule| RuleView {
                    device_type: rule.kind.as_deref().unwrap_or_default(),
                    major: rule.major,
                    minor: rule.minor,
                    // A rule without access may allow everything: in doubt, it is a request.
                    access: rule.access.as_deref().unwrap_or("rwm"),
                })
                .collect(),
            mounts: mounts
                .map(|mount| MountView {
                    source: mount.source.as_deref().unwrap_or_default(),
                    destination: &mount.destination,
                })
                .collect(),
        }
    }

    /// The keys of the runtime that created this container.
    fn pod_annotations(&self) -> Option<&'static [&'static str; 3]> {
        let mut runtimes = POD_ANNOTATIONS.iter();
        runtimes.find(|[uid, ..]| self.annotation(uid).is_some())
    }

    /// Returns the annotation, unless it is empty.
    fn annotation(&self, key: &str) -> Option<&str> {
        let value = self.annotations.as_ref()?.get(key)?.as_str();
        (!value.is_empty()).then_some(value)
    }
}
