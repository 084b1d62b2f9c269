//! The `ComputeDomain` custom resource.
//!
//! Fields, defaults and the immutability rule are those of the Go driver's CRD; `fixtures/computedomains-go.yaml` has
//! its schema. `status.conditions`, `status.observedGeneration`, `status.channel` and the printer columns are
//! optional additions, which the Go driver ignores.
//!
//! `status.channel` is immutable once set, by a validation rule of the whole object. The Go driver's controller drops
//! unknown fields when it writes the status, which would remove the channel; the API server then rejects the write.

#![expect(
    unreachable_pub,
    reason = "KubeSchema copies public types into a private scope"
)]

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use crate::AllocationMode;

/// The fields of a ComputeDomain other than metadata and status.
///
/// `spec` is optional, as in the Go driver's CRD: an object without one can be read, and the controller then rejects
/// it. [`ComputeDomain::spec`] returns it.
#[derive(
    CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize,
)]
#[kube(
    group = "resource.nvidia.com",
    version = "v1beta1",
    kind = "ComputeDomain",
    doc = "A set of workloads that can share memory over NVLink: metadata, spec and status",
    namespaced,
    no_spec,
    status = "ComputeDomainStatus",
    schema = "manual",
    derive = "PartialEq",
    derive = "Default",
    printcolumn = r#"{"name":"Status", "type":"string", "jsonPath":".status.status",
        "description":"Whether the ComputeDomain is Ready"}"#,
    printcolumn = r#"{"name":"Reason", "type":"string", "jsonPath":".status.conditions[?(@.status==\"False\")].reason",
        "description":"Why the ComputeDomain is not Ready"}"#,
    printcolumn = r#"{"name":"Channel", "type":"integer", "jsonPath":".status.channel",
        "description":"IMEX channel of the ComputeDomain; set only with isolation by channel"}"#,
    printcolumn = r#"{"name":"Template", "type":"string", "jsonPath":".spec.channel.resourceClaimTemplate.name",
        "description":"ResourceClaimTemplate for the workload's pods"}"#,
    printcolumn = r#"{"name":"Nodes", "type":"string", "jsonPath":".status.conditions[?(@.type==\"NodesReady\")].message",
        "priority":1,
        "description":"With driver-managed IMEX: how many nodes have claims, and which are not ready"}"#,
    printcolumn = r#"{"name":"Age", "type":"date", "jsonPath":".metadata.creationTimestamp"}"#
)]
#[schemars(
    description = "A set of workloads that can share memory over NVLink through IMEX channels"
)]
pub struct ComputeDomainRoot {
    /// spec is the desired state. Immutable.
    // req: CD-2
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ComputeDomainSpec")]
    #[x_kube(validation = Rule::new("self == oldSelf").message("A computeDomain.spec is immutable"))]
    pub spec: Option<ComputeDomainSpec>,
}

/// Desired state of a ComputeDomain.
// req: CD-1
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComputeDomainSpec {
    /// numNodes is deprecated. With driver-managed IMEX, the ComputeDomain is Ready only while claims are allocated to
    /// at least this many nodes; its pods do not wait for this. With host-managed IMEX, numNodes is ignored.
    // req: CD-9
    #[serde(default)]
    #[schemars(schema_with = "num_nodes_schema")]
    pub num_nodes: i64,
    /// channel configures the IMEX channel of the workload's pods.
    pub channel: ComputeDomainChannelSpec,
}

/// Configuration of the IMEX channel of the workload's pods.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComputeDomainChannelSpec {
    /// resourceClaimTemplate is the template that the controller creates for the workload's pods.
    pub resource_claim_template: ComputeDomainTemplateRef,
    /// allocationMode is Single (one IMEX channel for each pod) or All (all channels of its node).
    #[serde(default, skip_serializing_if = "is_unset")]
    #[schemars(schema_with = "allocation_mode_schema")]
    pub allocation_mode: AllocationMode,
}

/// Reference to a claim template in the namespace of the ComputeDomain.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComputeDomainTemplateRef {
    /// name is the name of the claim template.
    pub name: String,
}

/// Observed state of a ComputeDomain.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComputeDomainStatus {
    /// status is Ready if the controller has accepted the ComputeDomain and created its claim template. With
    /// driver-managed IMEX, there must also be `numNodes` nodes with claims, and all nodes with claims must be ready.
    /// With host-managed IMEX, nodes do not matter.
    #[schemars(schema_with = "state_schema")]
    pub status: ComputeDomainState,
    /// nodes are the nodes to which claims of the ComputeDomain are allocated. Set with driver-managed IMEX only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub nodes: Vec<ComputeDomainNode>,
    /// conditions give the reasons for the status.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "readable_conditions"
    )]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// observedGeneration is the `metadata.generation` that the status is about. NVIDIA's DRA driver does not set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub observed_generation: Option<i64>,
    /// channel is the IMEX channel of the workload's pods. Set only with isolation by channel; 0 if the ComputeDomain
    /// was Ready before isolation was enabled. Immutable once set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "channel_schema")]
    pub channel: Option<u32>,
}

/// Node of a ComputeDomain with driver-managed IMEX.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComputeDomainNode {
    /// name is the name of the Node.
    pub name: String,
    /// ipAddress is the address of the node's IMEX daemon; empty if there is none.
    pub ip_address: String,
    /// cliqueID is the NVLink clique, `CLUSTER-UUID.CLIQUE-ID`; empty if the node is in no clique.
    #[serde(rename = "cliqueID")]
    pub clique_id: String,
    /// index is the daemon's index in its clique; -1 if the daemon is not a member of a clique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "integer_schema")]
    pub index: Option<i64>,
    /// status says whether the node's IMEX daemon is ready.
    #[serde(default)]
    #[schemars(schema_with = "state_schema")]
    pub status: ComputeDomainState,
}

/// Ready or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ComputeDomainState {
    /// Ready.
    Ready,
    /// Not ready, also before the first status.
    #[default]
    NotReady,
}

/// Transition rule: a channel that is set never changes.
const CHANNEL_RULE: &str = "!has(oldSelf.status) || !has(oldSelf.status.channel) || \
    (has(self.status) && has(self.status.channel) && self.status.channel == oldSelf.status.channel)";

// === impl ComputeDomain ===

impl ComputeDomain {
    /// The spec, if the object has one.
    pub fn spec(&self) -> Option<&ComputeDomainSpec> {
        self.spec.spec.as_ref()
    }
}

impl JsonSchema for ComputeDomain {
    fn schema_name() -> Cow<'static, str> {
        "ComputeDomain".into()
    }

    /// Written by hand: a derived schema of an optional status accepts null, which the API server would then store.
    /// With the Go driver's schema, the API server drops a null status.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = ComputeDomainRoot::json_schema(generator);
        let status = generator.subschema_for::<ComputeDomainStatus>();
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            properties.insert("status".to_owned(), status.into());
        }
        // A rule of the whole object: a rule of the status is not evaluated when the status is removed.
        schema.insert(
            // req: CHANNEL-8
            "x-kubernetes-validations".to_owned(),
            json!([{ "rule": CHANNEL_RULE, "message": "A computeDomain.status.channel never changes" }]),
        );
        schema
    }
}

// === impl ComputeDomainState ===

impl ComputeDomainState {
    /// Every state.
    pub const ALL: [Self; 2] = [Self::Ready, Self::NotReady];

    /// The value in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::NotReady => "NotReady",
        }
    }
}

// === impl AllocationMode ===

impl Serialize for AllocationMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for AllocationMode {
    /// Accepts any string and null, so that objects of a newer CRD can be read.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?
            .unwrap_or_default()
            .into())
    }
}

/// Drops unreadable conditions: a writer of the status may set a time that the CRD accepts and [`Condition`] does
/// not, such as the end of the year 9999. That must not make the whole object unreadable.
fn readable_conditions<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Condition>, D::Error> {
    let conditions = Vec::<Value>::deserialize(deserializer)?;
    let readable = |condition| serde_json::from_value(condition).ok();
    Ok(conditions.into_iter().filter_map(readable).collect())
}

fn is_unset(mode: &AllocationMode) -> bool {
    *mode == AllocationMode::Unset
}

// === schemas: those of the Go driver's CRD; the derived ones have formats and no defaults ===

fn num_nodes_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "minimum": 0, "default": 0 })
}

fn channel_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "minimum": 0, "maximum": 1_000_000 })
}

pub(crate) fn integer_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer" })
}

fn allocation_mode_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["All", "Single"], "default": "Single" })
}

pub(crate) fn state_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": ["Ready", "NotReady"], "default": "NotReady" })
}

#[cfg(test)]
mod tests;
