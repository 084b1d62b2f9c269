//! The `ComputeDomainClique` custom resource: the members of one NVLink clique, as their IMEX daemons
//! have to know each other.
//!
//! Fields are those of the Go driver's CRD, where its daemons write them, one object for each
//! `ComputeDomain` and clique. Here the controller alone writes one object for each clique, which all
//! `ComputeDomains` share; it has the label [`DRIVER_MANAGED_LABEL`](crate::driver_managed::DRIVER_MANAGED_LABEL). The fields that
//! the Go driver lacks are optional: its objects can be read, too.

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
    /// Its members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["nodeName".into()]))]
    pub daemons: Vec<CliqueDaemon>,
    /// How many lines the node list of each daemon has: members have indices below it. Daemons whose
    /// lists differ refuse each other, so it changes only while no daemon of the clique runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "length_schema")]
    pub list_length: Option<u32>,
    /// How many members it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count_schema")]
    pub member_count: Option<u32>,
    /// How many of them are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "count_schema")]
    pub ready_count: Option<u32>,
    /// Free indices that are still reserved: no member gets one within five minutes of `since`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["index".into()]))]
    pub freed: Vec<FreedIndex>,
    /// How the names in the node list are made. Changes as `listLength` does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "scheme_schema")]
    pub name_scheme: Option<NameScheme>,
}

/// One member of a clique.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CliqueDaemon {
    /// Name of its node.
    pub node_name: String,
    /// Address of its daemon: its pod's. Empty while there is no pod with an address.
    pub ip_address: String,
    /// `CLUSTER-UUID.CLIQUE-ID`.
    #[serde(rename = "cliqueID")]
    pub clique_id: String,
    /// Its line in the node list, from 0 on; it never changes while the Node object lives.
    #[serde(default)]
    #[schemars(schema_with = "integer_schema")]
    pub index: i64,
    /// Whether its daemon is ready.
    #[serde(default)]
    #[schemars(schema_with = "state_schema")]
    pub status: ComputeDomainState,
    /// UID of the Node object. A node of the same name with another UID is another member.
    #[serde(default, rename = "nodeUID", skip_serializing_if = "String::is_empty")]
    pub node_uid: String,
    /// UID of the daemon's pod, whose address this is. Empty without one.
    #[serde(default, rename = "podUID", skip_serializing_if = "String::is_empty")]
    pub pod_uid: String,
    /// Address of the machine on which its daemon runs, or ran last: the pod's `hostIP`. A Node that is
    /// registered again at this address is the same machine and keeps the index.
    #[serde(default, rename = "hostIP", skip_serializing_if = "String::is_empty")]
    pub host_ip: String,
    /// Since when no daemon and no `ResourceSlice` of the node are known, in RFC 3339. Empty: they are.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub absent_since: String,
    /// The UID of the daemon pod that is to be replaced: this one withdraws its readiness, so that the
    /// node prepares no further claim. Empty: none is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub draining: String,
}

/// A free index that is still reserved.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FreedIndex {
    /// The index.
    #[schemars(schema_with = "integer_schema")]
    pub index: i64,
    /// Since when no daemon with this index is known, in RFC 3339.
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
            "# ComputeDomainClique\n\n`{}`, namespaced, in the driver's namespace; its name is the clique's, and its short name for \
             kubectl `{}`. {}, which the controller alone writes. It has neither spec nor status.\n\n## Fields\n\n{}",
            crate::names::API_VERSION,
            crd["spec"]["names"]["shortNames"][0].as_str().unwrap(),
            schema["description"].as_str().unwrap(),
            reference::fields_table(schema),
        );
        reference::assert_page("computedomainclique.md", env!("CARGO_PKG_NAME"), &page);
    }
}
