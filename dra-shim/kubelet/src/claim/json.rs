//! The fields of `resource.k8s.io/v1` that the library reads. Not k8s-openapi's types:
//! they would re-encode the opaque parameters and drop fields of newer servers.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
pub(super) struct Object<'a> {
    pub(super) metadata: Metadata,
    #[serde(borrow)]
    pub(super) status: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Metadata {
    pub(super) uid: String,
    #[serde(default)]
    pub(super) labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(super) annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
pub(super) struct Status<'a> {
    #[serde(borrow)]
    pub(super) allocation: Option<Allocation<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Allocation<'a> {
    #[serde(default, borrow)]
    pub(super) devices: Devices<'a>,
}

#[derive(Deserialize, Default)]
pub(super) struct Devices<'a> {
    #[serde(default)]
    pub(super) results: Vec<AllocationResult>,
    #[serde(default, borrow)]
    pub(super) config: Vec<Config<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AllocationResult {
    pub(super) request: String,
    pub(super) driver: String,
    pub(super) pool: String,
    pub(super) device: String,
    #[serde(default)]
    pub(super) admin_access: Option<bool>,
    #[serde(default, rename = "shareID")]
    pub(super) share_id: Option<String>,
    #[serde(default)]
    pub(super) consumed_capacity: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
pub(super) struct Config<'a> {
    #[serde(default)]
    pub(super) source: String,
    #[serde(default)]
    pub(super) requests: Option<Vec<String>>,
    #[serde(default, borrow)]
    pub(super) opaque: Option<Opaque<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Opaque<'a> {
    pub(super) driver: String,
    #[serde(default, borrow)]
    pub(super) parameters: Option<&'a RawValue>,
}
