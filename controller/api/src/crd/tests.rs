use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::*;

fn version() -> Value {
    let crd = serde_json::to_value(ComputeDomain::crd()).unwrap();
    crd["spec"]["versions"][0].clone()
}

fn properties() -> Value {
    version()["schema"]["openAPIV3Schema"]["properties"].clone()
}

#[test]
fn the_spec_is_optional_never_null_and_immutable() {
    let schema = version()["schema"]["openAPIV3Schema"].clone();
    assert_eq!(schema.get("required"), None);
    let spec = &schema["properties"]["spec"];
    assert_eq!(spec.get("nullable"), None);
    assert_eq!(spec.get("default"), None);
    assert_eq!(
        spec["x-kubernetes-validations"],
        json!([{ "rule": "self == oldSelf", "message": "A computeDomain.spec is immutable" }])
    );
}

#[test]
fn the_spec_has_the_types_and_defaults_of_the_go_driver() {
    let spec = properties()["spec"].clone();
    assert_eq!(spec["required"], json!(["channel"]));
    let num_nodes = &spec["properties"]["numNodes"];
    assert_eq!(num_nodes["type"], "integer");
    assert_eq!(num_nodes["minimum"].as_f64(), Some(0.0));
    assert_eq!(num_nodes["default"], json!(0));
    assert_eq!(num_nodes.get("format"), None);
    let channel = &spec["properties"]["channel"];
    assert_eq!(channel["required"], json!(["resourceClaimTemplate"]));
    assert_eq!(channel["properties"]["allocationMode"]["default"], "Single");
    assert_eq!(
        channel["properties"]["allocationMode"]["enum"],
        json!(["All", "Single"])
    );
    let template = &channel["properties"]["resourceClaimTemplate"];
    assert_eq!(template["required"], json!(["name"]));
}

#[test]
fn the_status_has_the_types_and_defaults_of_the_go_driver() {
    assert!(version()["subresources"]["status"].is_object());
    let status = properties()["status"].clone();
    assert_eq!(status["required"], json!(["status"]));
    assert_eq!(status["properties"]["status"]["default"], "NotReady");
    let nodes = &status["properties"]["nodes"];
    assert_eq!(nodes["x-kubernetes-list-type"], "map");
    assert_eq!(nodes["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(
        nodes["items"]["required"],
        json!(["cliqueID", "ipAddress", "name"])
    );
    assert_eq!(
        status["properties"]["conditions"]["x-kubernetes-list-map-keys"],
        json!(["type"])
    );
}

#[test]
fn an_object_without_a_spec_is_read_and_written_without_one() {
    let text = r#"{"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomain","metadata":{"name":"a"}}"#;
    let domain: ComputeDomain = serde_json::from_str(text).unwrap();
    assert_eq!(domain.spec(), None);
    assert_eq!(serde_json::to_string(&domain).unwrap(), text);
}

#[test]
fn an_object_of_the_go_driver_is_read() {
    let domain: ComputeDomain = serde_json::from_value(json!({
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "ComputeDomain",
        "metadata": { "name": "train-a", "namespace": "team-1" },
        "spec": { "numNodes": 0, "channel": {
            "allocationMode": "Single",
            "resourceClaimTemplate": { "name": "train-a-channel" },
        } },
        "status": { "status": "Ready", "nodes": [
            { "name": "n1", "ipAddress": "10.0.0.1", "cliqueID": "u.0", "index": 0, "status": "Ready" },
        ] },
    }))
    .unwrap();
    let channel = &domain.spec().unwrap().channel;
    assert_eq!(channel.allocation_mode, AllocationMode::Single);
    assert_eq!(channel.resource_claim_template.name, "train-a-channel");
    let status = domain.status.unwrap();
    assert_eq!(status.status, ComputeDomainState::Ready);
    assert_eq!(status.nodes[0].index, Some(0));
}

#[test]
fn an_allocation_mode_of_a_newer_crd_is_read_as_it_is() {
    let channel: ComputeDomainChannelSpec = serde_json::from_value(json!({
        "resourceClaimTemplate": { "name": "a" }, "allocationMode": "Shared",
    }))
    .unwrap();
    assert_eq!(
        channel.allocation_mode,
        AllocationMode::Unknown("Shared".into())
    );
}

/// The API server accepts only structural schemas: each property has a type.
#[test]
fn every_property_has_a_type() {
    fn walk(path: &str, schema: &Value) {
        assert!(schema["type"].is_string(), "{path} has no type: {schema}");
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            walk(&format!("{path}.{name}"), property);
        }
        if let Some(items) = schema.get("items") {
            walk(&format!("{path}[]"), items);
        }
    }
    walk("", &version()["schema"]["openAPIV3Schema"]);
}
