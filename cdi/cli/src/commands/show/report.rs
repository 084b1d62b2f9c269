//! What `show` prints, as data.

use std::collections::BTreeMap;

use host_doctor::{Host, HostPaths, NodeReport};
use imex_cdi::{ContainerEdits, Device, QualifiedName, Spec};
use serde::Serialize;

use super::edits::Paths;
use crate::version::VersionReport;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ShowReport {
    schema: &'static str,
    pub(super) file: String,
    pub(super) priority: Option<usize>,
    /// Files of lower priority that define the device too.
    pub(super) shadows: Vec<String>,
    pub(super) kind: String,
    pub(super) version: VersionReport,
    /// The fields that need the most recent version.
    pub(super) needs: Vec<Need>,
    pub(super) annotations: BTreeMap<String, String>,
    /// What a container gets with any of the devices.
    #[serde(rename = "containerEdits")]
    pub(super) edits: ContainerEdits,
    pub(super) nodes: Vec<NodeReport>,
    #[serde(skip)]
    pub(super) paths: Paths,
    pub(super) devices: Vec<DeviceReport>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Need {
    pub(super) version: &'static str,
    pub(super) field: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeviceReport {
    pub(super) name: String,
    /// The path of its edits in the file.
    pub(super) field: String,
    annotations: BTreeMap<String, String>,
    #[serde(rename = "containerEdits")]
    pub(super) edits: ContainerEdits,
    pub(super) nodes: Vec<NodeReport>,
    #[serde(skip)]
    pub(super) paths: Paths,
}

// === impl ShowReport ===

impl ShowReport {
    /// A file, without its devices.
    pub(super) fn new(file: String, priority: Option<usize>, spec: &Spec, host: &Host) -> Self {
        let needed = spec.needed_version();
        let needs = spec.needs().filter(|(version, _)| *version == needed);
        Self {
            schema: "cdi-gen/show/v1",
            file,
            priority,
            shadows: vec![],
            kind: spec.kind().to_string(),
            version: VersionReport::new(spec),
            needs: needs
                .map(|(version, field)| Need {
                    version: version.as_str(),
                    field,
                })
                .collect(),
            annotations: spec.annotations().clone(),
            edits: spec.container_edits().clone(),
            nodes: NodeReport::from_edits(spec, spec.container_edits(), host).collect(),
            paths: Paths::new(spec.container_edits(), &mut HostPaths::new(host)),
            devices: vec![],
        }
    }

    /// The nodes that a container would not get, with their file.
    pub(super) fn bad_nodes(&self) -> impl Iterator<Item = (&str, &NodeReport)> {
        let of_devices = self.devices.iter().flat_map(|device| &device.nodes);
        let bad = of_devices.chain(&self.nodes);
        let bad = bad.filter(|node| node.state.is_bad());
        bad.map(|node| (self.file.as_str(), node))
    }
}

// === impl DeviceReport ===

impl DeviceReport {
    pub(super) fn new(spec: &Spec, index: usize, device: &Device, host: &Host) -> Self {
        let name = QualifiedName::new(spec.kind().clone(), device.name.clone());
        Self {
            name: name.to_string(),
            field: format!("devices[{index}].containerEdits"),
            annotations: device.annotations.clone(),
            edits: device.container_edits.clone(),
            nodes: NodeReport::from_edits(spec, &device.container_edits, host).collect(),
            paths: Paths::new(&device.container_edits, &mut HostPaths::new(host)),
        }
    }
}
