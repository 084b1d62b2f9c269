//! One slice of a clique's pool.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use compute_domain_api::names::{
    CLIQUE_LABEL, DEVICE_ID_ATTRIBUTE, DEVICE_TYPE_ATTRIBUTE, DEVICE_TYPE_CLIQUE_CHANNEL,
    DRIVER_NAME, channel_device_name, clique_of_pool, group_pool_name,
};
use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use k8s_openapi::api::resource::v1::{
    Device, DeviceAttribute, ResourcePool, ResourceSlice, ResourceSliceSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::cliques::Clique;

/// The most devices of a slice, also with features that lower Kubernetes' limit.
const DEVICES: usize = 64;

/// The place of a slice in its pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// From 0.
    pub(super) index: usize,
}

// === impl Place ===

impl Place {
    /// The clique and place of a slice in a clique's pool, from driver, pool and name; `None` for all others.
    pub(super) fn of(slice: &ResourceSlice) -> Option<(Clique, Self)> {
        let spec = &slice.spec;
        if spec.driver != DRIVER_NAME || spec.node_name.is_some() {
            return None;
        }
        let clique = clique_of_pool(&spec.pool.name)?;
        let name = slice.metadata.name.as_deref()?;
        let number = name.rsplit_once('-')?.1.parse::<usize>().ok()?;
        let place = Self {
            index: number.checked_sub(1)?,
        };
        (place.name(clique) == name).then(|| (clique.into(), place))
    }

    fn name(self, clique: &str) -> String {
        let number = self.index.saturating_add(1);
        format!("compute-domain-{}-{number}", group_pool_name(clique))
    }
}

/// The number of slices of a pool with these channels.
pub(super) fn slice_count(channels: &RangeInclusive<u32>) -> usize {
    channels.clone().count().div_ceil(DEVICES)
}

/// The slice at this place of the clique's pool.
// req: CHANNEL-18
pub(super) fn mk_slice(
    clique: &str,
    channels: &RangeInclusive<u32>,
    place: Place,
    generation: i64,
) -> ResourceSlice {
    let numbers = channels.clone().skip(place.index.saturating_mul(DEVICES));
    ResourceSlice {
        metadata: ObjectMeta {
            name: Some(place.name(clique)),
            ..ObjectMeta::default()
        },
        spec: ResourceSliceSpec {
            driver: DRIVER_NAME.to_owned(),
            pool: ResourcePool {
                name: group_pool_name(clique),
                generation,
                resource_slice_count: i64::try_from(slice_count(channels)).unwrap_or(i64::MAX),
            },
            node_selector: Some(nodes_of(clique)),
            devices: Some(numbers.take(DEVICES).map(device).collect()),
            ..ResourceSliceSpec::default()
        },
    }
}

fn nodes_of(clique: &str) -> NodeSelector {
    NodeSelector {
        node_selector_terms: vec![NodeSelectorTerm {
            match_expressions: Some(vec![NodeSelectorRequirement {
                key: CLIQUE_LABEL.to_owned(),
                operator: "In".to_owned(),
                values: Some(vec![clique.to_owned()]),
            }]),
            match_fields: None,
        }],
    }
}

fn device(channel: u32) -> Device {
    let kind = DeviceAttribute {
        string: Some(DEVICE_TYPE_CLIQUE_CHANNEL.to_owned()),
        ..DeviceAttribute::default()
    };
    let id = DeviceAttribute {
        int: Some(i64::from(channel)),
        ..DeviceAttribute::default()
    };
    Device {
        name: channel_device_name(channel),
        attributes: Some(BTreeMap::from([
            (DEVICE_TYPE_ATTRIBUTE.to_owned(), kind),
            (DEVICE_ID_ATTRIBUTE.to_owned(), id),
        ])),
        ..Device::default()
    }
}
