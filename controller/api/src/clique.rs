//! The `ComputeDomainClique` custom resource: the members of one NVLink clique, whose IMEX daemons are peers.
//!
//! Fields are those of the Go driver's CRD. There, the daemons write one object for each `ComputeDomain` and clique.
//! Here, only the controller writes one object for each clique, which all `ComputeDomains` share and which has the
//! label [`DRIVER_MANAGED_LABEL`](crate::driver_managed::DRIVER_MANAGED_LABEL). Fields that the Go driver lacks are
//! optional, so its objects can be read, too.

#![expect(
    unreachable_pub,
    reason = "KubeSchema copies public types into a private scope"
)]

use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::crd::{ComputeDomainState, integer_schema, state_schema};
use crate::driver_managed::NameScheme;

/// The fields of a `ComputeDomainClique` other than metadata. It has neither spec nor status.
#[derive(
    CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize,
)]
#[kube(
    group = "resource.nvidia.com",
    version = "v1beta1",
    kind = "ComputeDomainClique",
    shortname = "cdclique",
    printcolumn = r#"{"name":"Members","type":"integer","jsonPath":".memberCount"}"#,
    printcolumn = r#"{"name":"Ready","type":"integer","jsonPath":".readyCount"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    doc = "The IMEX daemons of one NVLink clique",
    namespaced,
    no_spec,
    derive = "PartialEq",
    derive = "Default"
)]
#[serde(rename_all = "camelCase")]
#[schemars(description = "The IMEX daemons of one NVLink clique")]
pub struct ComputeDomainCliqueRoot {
    /// daemons are the members of the clique.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["nodeName".into()]))]
    pub daemons: Vec<CliqueDaemon>,
    /// listLength is the number of lines in each daemon's node list; all indices are below it. Daemons with different
    /// lists reject each other, so listLength changes only while no daemon of the clique runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "length_schema")]
    pub list_length: Option<u32>,
    /// memberCount is the number of members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count_schema")]
    pub member_count: Option<u32>,
    /// readyCount is the number of ready members.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count_schema")]
    pub ready_count: Option<u32>,
    /// freed are unused indices that stay reserved until five minutes after `since`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["index".into()]))]
    pub freed: Vec<FreedIndex>,
    /// nameScheme is the format of the host names in the node list. Changes only while no daemon of the clique runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "scheme_schema")]
    pub name_scheme: Option<NameScheme>,
}

/// One member of a clique.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CliqueDaemon {
    /// nodeName is the name of the Node.
    pub node_name: String,
    /// ipAddress is the address of the daemon's pod. Empty while there is no pod with an address.
    pub ip_address: String,
    /// cliqueID is the clique, `CLUSTER-UUID.CLIQUE-ID`.
    #[serde(rename = "cliqueID")]
    pub clique_id: String,
    /// index is the member's line in the node list, from 0 on. It never changes while the Node object exists.
    #[serde(default)]
    #[schemars(schema_with = "integer_schema")]
    pub index: i64,
    /// status says whether the daemon is ready.
    #[serde(default)]
    #[schemars(schema_with = "state_schema")]
    pub status: ComputeDomainState,
    /// nodeUID is the UID of the Node. A Node of the same name with another UID is another member.
    #[serde(default, rename = "nodeUID", skip_serializing_if = "String::is_empty")]
    pub node_uid: String,
    /// podUID is the UID of the daemon's pod at `ipAddress`. Empty if there is no such pod.
    #[serde(default, rename = "podUID", skip_serializing_if = "String::is_empty")]
    pub pod_uid: String,
    /// hostIP is the address of the host on which the daemon runs or last ran: the pod's `hostIP`. A Node that is
    /// registered again with this address is the same machine and keeps the index.
    #[serde(default, rename = "hostIP", skip_serializing_if = "String::is_empty")]
    pub host_ip: String,
    /// absentSince is the time since which the node has neither daemon nor `ResourceSlice`, in RFC 3339; else empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub absent_since: String,
    /// draining is the UID of the daemon pod to be replaced. That daemon reports not ready, so that the node prepares
    /// no new claims. Empty if no pod is to be replaced.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub draining: String,
}

/// An unused index that is still reserved.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FreedIndex {
    /// index is the reserved index.
    #[schemars(schema_with = "integer_schema")]
    pub index: i64,
    /// since is the time since which no daemon has the index, in RFC 3339.
    pub since: String,
}

fn count_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "minimum": 0 })
}

fn length_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "minimum": 1, "maximum": 2048 })
}

fn scheme_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string" })
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt as _;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_reference_has_every_field() {
        let crd = json!(ComputeDomainClique::crd());
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let page = format!(
            "# ComputeDomainClique\n\n`{}`, namespaced, in the driver's namespace, named after its clique; short name for \
             kubectl: `{}`. {}; only the controller writes it. It has neither spec nor status.\n\n## Fields\n\n{}",
            crate::names::API_VERSION,
            crd["spec"]["names"]["shortNames"][0].as_str().unwrap(),
            schema["description"].as_str().unwrap(),
            reference::fields_table(schema),
        );
        reference::assert_page("computedomainclique.md", env!("CARGO_PKG_NAME"), &page);
    }
}
