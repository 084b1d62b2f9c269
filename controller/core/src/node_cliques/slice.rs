//! The content of a node's slice.

use compute_domain_api::driver_managed::{DRAINED_ATTRIBUTE, PLACE_ATTRIBUTE, Place};
use compute_domain_api::names::{CLIQUE_ATTRIBUTE, DRIVER_NAME, NO_CLIQUE_TAINT, is_clique};
use k8s_openapi::api::resource::v1::{Device, ResourceSlice};

use crate::cliques::Clique;

/// The content of a node's slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSlice {
    pub(super) node: Box<str>,
    /// The node's UID.
    pub(super) uid: Box<str>,
    /// The slice's name.
    pub(super) slice: Box<str>,
    pub(super) reported: ReportedClique,
    /// The pod of the node's IMEX daemon for which the plugin reports that no claim is prepared.
    pub(super) drained: Option<Box<str>>,
    /// The place with which the node's `nvidia-imex` runs in that clique.
    pub(super) place: Option<Place>,
}

/// The clique that a slice reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReportedClique {
    /// No information.
    Nothing,
    NoClique,
    Clique(Clique),
}

// === impl NodeSlice ===

impl NodeSlice {
    /// Reads this slice; `None` if it is not a slice of the driver with a node as its owner, as the plugin creates
    /// it.
    pub fn new(slice: &ResourceSlice) -> Option<Self> {
        let spec = &slice.spec;
        let node = spec.node_name.as_deref()?;
        let mut owners = slice.metadata.owner_references.iter().flatten();
        let owner = owners.find(|owner| owner.kind == "Node" && owner.name == node)?;
        let devices = spec.devices.as_deref().unwrap_or_default();
        (spec.driver == DRIVER_NAME).then(|| Self {
            node: node.into(),
            uid: owner.uid.as_str().into(),
            slice: slice.metadata.name.as_deref().unwrap_or_default().into(),
            reported: ReportedClique::of(devices),
            drained: text(devices, DRAINED_ATTRIBUTE).map(Box::from),
            // Another text is from a later version or another writer.
            place: text(devices, PLACE_ATTRIBUTE).and_then(|place| place.parse().ok()),
        })
    }

    /// The node's name.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The node's UID.
    pub(crate) fn node_uid(&self) -> &str {
        &self.uid
    }

    /// The slice's name.
    pub(crate) fn slice(&self) -> &str {
        &self.slice
    }

    /// The UID of the pod of the node's IMEX daemon, if no claim has had a record on the node since it is draining.
    pub(crate) fn drained(&self) -> Option<&str> {
        self.drained.as_deref()
    }

    /// The place with which the node's `nvidia-imex` runs in that clique, or has last run since the node started.
    pub(crate) fn place(&self) -> Option<Place> {
        self.place
    }

    /// The reported clique.
    pub(crate) fn reported(&self) -> &ReportedClique {
        &self.reported
    }
}

/// Whether the slice's device has the no-clique taint: its node definitely has no clique.
pub fn is_without_clique(slice: &ResourceSlice) -> bool {
    slice.spec.devices.iter().flatten().any(has_no_clique)
}

fn has_no_clique(device: &Device) -> bool {
    let mut taints = device.taints.iter().flatten();
    taints.any(|taint| taint.key == NO_CLIQUE_TAINT)
}

/// The first device's value of this attribute.
fn text<'a>(devices: &'a [Device], attribute: &str) -> Option<&'a str> {
    let attributes = devices.iter().filter_map(|it| it.attributes.as_ref());
    let mut values = attributes.filter_map(|it| it.get(attribute)?.string.as_deref());
    values.next()
}

impl ReportedClique {
    fn of(devices: &[Device]) -> Self {
        if devices.iter().any(has_no_clique) {
            return Self::NoClique;
        }
        // It becomes the value of a label and the name of a pool.
        let clique = text(devices, CLIQUE_ATTRIBUTE).filter(|text| is_clique(text));
        clique.map_or(Self::Nothing, |it| Self::Clique(Clique::from(it)))
    }

    pub(crate) fn into_clique(self) -> Option<Clique> {
        match self {
            Self::Clique(clique) => Some(clique),
            Self::Nothing | Self::NoClique => None,
        }
    }
}
