//! The `ComputeDomain` custom resource.
//!
//! Fields, defaults and the immutability rule are those of the Go driver's CRD, of which
//! `fixtures/computedomains-go.yaml` has the schema. `status.conditions`, `status.observedGeneration`,
//! `status.channel` and the printer columns are additions, all optional, which the Go driver ignores.
//!
//! `status.channel` is written once: a rule of the whole object keeps it as it is from then on. The Go
//! driver's controller writes the status without the fields that it does not know, which would remove
//! it; where it is set, such a write is refused.

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
/// `spec` is optional, as in the Go driver's CRD: an object without one can be read, and is then
/// rejected by the controller. Use [`ComputeDomain::spec`] to access it.
#[derive(
    CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize,
)]
#[kube(
    group = "resource.nvidia.com",
    version = "v1beta1",
    kind = "ComputeDomain",
    doc = "A set of workloads that may share memory over NVLink: metadata, spec and status",
    namespaced,
    no_spec,
    status = "ComputeDomainStatus",
    schema = "manual",
    derive = "PartialEq",
    derive = "Default",
    printcolumn = r#"{"name":"Status", "type":"string", "jsonPath":".status.status",
        "description":"Whether it is admitted and its claim template exists"}"#,
    printcolumn = r#"{"name":"Reason", "type":"string", "jsonPath":".status.conditions[?(@.status==\"False\")].reason",
        "description":"Why it is not Ready"}"#,
    printcolumn = r#"{"name":"Channel", "type":"integer", "jsonPath":".status.channel",
        "description":"IMEX channel, where every ComputeDomain has its own"}"#,
    printcolumn = r#"{"name":"Template", "type":"string", "jsonPath":".spec.channel.resourceClaimTemplate.name",
        "description":"ResourceClaimTemplate for the workload's pods"}"#,
    printcolumn = r#"{"name":"Nodes", "type":"string", "jsonPath":".status.conditions[?(@.type==\"NodesReady\")].message",
        "priority":1,
        "description":"With -o wide, where the driver runs IMEX: how many nodes it has, of how many, and which are not ready"}"#,
    printcolumn = r#"{"name":"Age", "type":"date", "jsonPath":".metadata.creationTimestamp"}"#
)]
#[schemars(
    description = "A set of workloads that may share memory over NVLink through IMEX channels"
)]
pub struct ComputeDomainRoot {
    /// What the user asks for. It never changes.
    // req: CD-2
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ComputeDomainSpec")]
    #[x_kube(validation = Rule::new("self == oldSelf").message("A computeDomain.spec is immutable"))]
    pub spec: Option<ComputeDomainSpec>,
}

/// What the user asks for.
// req: CD-1
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComputeDomainSpec {
    /// Deprecated: how many nodes it has to have to be Ready, where the driver runs IMEX; nothing else waits
    /// for them. Ignored where the operator runs IMEX on the hosts.
    // req: CD-9
    #[serde(default)]
    #[schemars(schema_with = "num_nodes_schema")]
    pub num_nodes: i64,
    /// The channel that workloads get.
    pub channel: ComputeDomainChannelSpec,
}

/// The channel that workloads get.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComputeDomainChannelSpec {
    /// The claim template that the controller creates for the workload's pods.
    pub resource_claim_template: ComputeDomainTemplateRef,
    /// Whether a pod gets one IMEX channel or all channels of its node.
    #[serde(default, skip_serializing_if = "is_unset")]
    #[schemars(schema_with = "allocation_mode_schema")]
    pub allocation_mode: AllocationMode,
}

/// A claim template in the namespace of the ComputeDomain.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComputeDomainTemplateRef {
    /// Its name.
    pub name: String,
}

/// What was observed.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComputeDomainStatus {
    /// Ready means admitted, and the claim template exists; where the driver runs IMEX, also that there are
    /// `numNodes` nodes and all are ready. Where the operator runs it, it says nothing about any node.
    #[schemars(schema_with = "state_schema")]
    pub status: ComputeDomainState,
    /// The nodes to which claims of it are allocated, where the driver runs IMEX. Elsewhere nobody writes it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub nodes: Vec<ComputeDomainNode>,
    /// Why the status is what it is.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "readable_conditions"
    )]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// The `metadata.generation` that this status is about. The Go driver does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub observed_generation: Option<i64>,
    /// The IMEX channel of its workloads, where every ComputeDomain has its own; 0 if it was Ready
    /// before that. Never changes once it is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "channel_schema")]
    pub channel: Option<u32>,
}

/// A node of a driver-managed ComputeDomain.
#[derive(JsonSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComputeDomainNode {
    /// Name of the node.
    pub name: String,
    /// Address of its IMEX daemon; empty while it has none.
    pub ip_address: String,
    /// NVLink fabric and clique; empty without one.
    #[serde(rename = "cliqueID")]
    pub clique_id: String,
    /// Number of its daemon within the clique; -1 if it is no member of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "integer_schema")]
    pub index: Option<i64>,
    /// Whether its IMEX daemon is ready.
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

/// Between two versions of an object: a channel that is set stays.
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

    /// By hand, because a derived schema of an optional status accepts null, which the API server
    /// would then store. With the Go driver's schema, the server drops a null status.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = ComputeDomainRoot::json_schema(generator);
        let status = generator.subschema_for::<ComputeDomainStatus>();
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            properties.insert("status".to_owned(), status.into());
        }
        // Of the whole object, since a rule of the status says nothing when the status is removed.
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
    /// Accepts any string, and null: an object of a newer CRD can be read, too.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::<String>::deserialize(deserializer)?
            .unwrap_or_default()
            .into())
    }
}

/// Whoever may write the status may write a time that the CRD accepts and [`Condition`] does not, such
/// as the end of the year 9999. That must not make the whole object unreadable.
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
