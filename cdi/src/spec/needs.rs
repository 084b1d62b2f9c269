//! The CDI version that a spec needs, and why.

use super::field::Field;
use crate::go_serde::is_unset;
use crate::{ContainerEdits, IntelRdt, Spec, SpecVersion};

impl Spec {
    /// The lowest version that supports all fields in use, at least 0.3.0, which is
    /// the base (`SPEC.md`, "Released versions").
    pub fn needed_version(&self) -> SpecVersion {
        let needed = self.each_need().map(|(version, _)| version).max();
        needed.unwrap_or(SpecVersion::FIRST)
    }

    /// Every field that needs more than 0.3.0: the version that added it, and its
    /// path in JSON. The spec's own fields come before those of its devices.
    pub fn needs(&self) -> impl Iterator<Item = (SpecVersion, String)> {
        self.each_need()
            .map(|(version, field)| (version, field.to_string()))
    }

    pub(super) fn each_need(&self) -> impl Iterator<Item = (SpecVersion, Field)> {
        let dot = self.kind().class().contains('.');
        let annotated = !self.annotations().is_empty();
        let of_spec = [
            dot.then_some((SpecVersion::V0_6_0, Field::in_spec("kind"))),
            annotated.then_some((SpecVersion::V0_6_0, Field::in_spec("annotations"))),
        ];
        let of_devices = self
            .devices()
            .iter()
            .enumerate()
            .flat_map(|(index, device)| {
                let digit = device.name.starts_with_digit();
                let annotated = !device.annotations.is_empty();
                let own = [
                    digit.then(|| (SpecVersion::V0_5_0, Field::in_device(index, "name"))),
                    annotated
                        .then(|| (SpecVersion::V0_6_0, Field::in_device(index, "annotations"))),
                ];
                let edits = needs_of_edits(&device.container_edits);
                let edits = edits.map(move |(v, field)| (v, field.in_edits_of(Some(index))));
                own.into_iter().flatten().chain(edits)
            });
        let edits = needs_of_edits(self.container_edits());
        let edits = edits.map(|(version, field)| (version, field.in_edits_of(None)));
        of_spec.into_iter().flatten().chain(edits).chain(of_devices)
    }
}

fn needs_of_edits(edits: &ContainerEdits) -> impl Iterator<Item = (SpecVersion, Field)> {
    let nodes = Field::in_spec("deviceNodes").entries(&edits.device_nodes);
    let host_paths = nodes
        .filter(|(_, node)| !is_unset(&node.host_path))
        .map(|(field, _)| (SpecVersion::V0_5_0, field.leaf("hostPath")));
    let mounts = Field::in_spec("mounts").entries(&edits.mounts);
    let types = mounts
        .filter(|(_, mount)| !is_unset(&mount.fs_type))
        .map(|(field, _)| (SpecVersion::V0_4_0, field.leaf("type")));
    let lists = [
        (
            edits.net_devices.is_empty(),
            SpecVersion::V1_1_0,
            "netDevices",
        ),
        (
            edits.additional_gids.is_empty(),
            SpecVersion::V0_7_0,
            "additionalGids",
        ),
    ];
    let lists = lists
        .into_iter()
        .filter(|(empty, ..)| !empty)
        .map(|(_, version, name)| (version, Field::in_spec(name)));
    let rdt = edits
        .intel_rdt
        .as_deref()
        .into_iter()
        .flat_map(needs_of_rdt);
    host_paths.chain(types).chain(lists).chain(rdt)
}

fn needs_of_rdt(rdt: &IntelRdt) -> impl Iterator<Item = (SpecVersion, Field)> {
    let field = Field::in_spec("intelRdt");
    let schemata = rdt.schemata.is_some();
    let monitored = rdt.enable_monitoring;
    [
        Some((SpecVersion::V0_7_0, field)),
        schemata.then(|| (SpecVersion::V1_1_0, field.leaf("schemata"))),
        monitored.then(|| (SpecVersion::V1_1_0, field.leaf("enableMonitoring"))),
    ]
    .into_iter()
    .flatten()
}
