use std::collections::BTreeMap;

use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::*;

/// The Go driver's CRD.
fn go_crd() -> Value {
    serde_saphyr::from_str(include_str!("../../fixtures/computedomains-go.yaml")).unwrap()
}

fn our_crd() -> Value {
    serde_json::to_value(ComputeDomain::crd()).unwrap()
}

fn schema(crd: &Value) -> &Value {
    &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
}

/// The rules of a schema, without descriptions. Limits are floating-point, so 0 and 0.0 are equal.
fn constraints(schema: &Value) -> BTreeMap<&str, Value> {
    let quiet = ["title", "description", "properties", "items"];
    schema
        .as_object()
        .unwrap()
        .iter()
        .filter(|(key, _)| !quiet.contains(&key.as_str()))
        .map(|(key, value)| match (key.as_str(), value.as_f64()) {
            ("minimum", Some(limit)) => ("minimum", json!(limit)),
            (key, _) => (key, value.clone()),
        })
        .collect()
}

/// Fails unless `ours` has exactly the rules of `theirs` for each of its fields. Returns the paths of the fields that
/// only `ours` has.
fn additions(path: &str, ours: &Value, theirs: &Value) -> Vec<String> {
    assert_eq!(constraints(ours), constraints(theirs), "{path:?}");
    let mut added = Vec::new();
    let fields = |schema: &Value| {
        schema["properties"]
            .as_object()
            .cloned()
            .unwrap_or_default()
    };
    for (name, field) in fields(ours) {
        let path = format!("{path}.{name}");
        match fields(theirs).get(&name) {
            Some(theirs) => added.extend(additions(&path, &field, theirs)),
            None => added.push(path),
        }
    }
    for name in fields(theirs).keys() {
        assert!(fields(ours).contains_key(name), "{path}.{name} is missing");
    }
    match (ours.get("items"), theirs.get("items")) {
        (Some(ours), Some(theirs)) => {
            added.extend(additions(&format!("{path}[]"), ours, theirs));
        }
        (ours, theirs) => assert_eq!(ours, theirs, "{path}[]"),
    }
    added
}

// req: CD-1
#[test]
fn our_schema_is_the_go_drivers_plus_three_optional_status_fields() {
    let (mut ours, mut theirs) = (our_crd(), go_crd());
    // Our only validation rule is about one of these fields.
    let own = &mut ours["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let rules = own
        .as_object_mut()
        .unwrap()
        .remove("x-kubernetes-validations");
    let rule = rules.unwrap()[0]["rule"].as_str().unwrap().to_owned();
    assert!(rule.contains("status.channel"), "{rule}");
    // The API server validates metadata by itself, regardless of the schema.
    let implied = &mut theirs["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    for name in ["apiVersion", "kind", "metadata"] {
        assert!(implied.as_object_mut().unwrap().remove(name).is_some());
    }
    assert_eq!(
        additions("", schema(&ours), schema(&theirs)),
        [
            ".status.channel",
            ".status.conditions",
            ".status.observedGeneration"
        ]
    );
}

// req: CD-1
#[test]
fn our_crd_has_the_names_scope_and_version_of_the_go_driver() {
    let (ours, theirs) = (our_crd(), go_crd());
    for path in ["/metadata/name", "/spec/group", "/spec/scope"] {
        assert!(ours.pointer(path).is_some(), "{path}");
        assert_eq!(ours.pointer(path), theirs.pointer(path), "{path}");
    }
    for name in ["kind", "plural", "singular"] {
        assert_eq!(ours["spec"]["names"][name], theirs["spec"]["names"][name]);
    }
    assert_eq!(ours["spec"]["versions"].as_array().unwrap().len(), 1);
    for name in ["name", "served", "storage", "subresources"] {
        let of = |crd: &Value| crd["spec"]["versions"][0][name].clone();
        assert_eq!(of(&ours), of(&theirs), "{name}");
    }
}

#[test]
fn conditions_are_a_map_by_type_so_that_writers_can_share_them() {
    let ours = our_crd();
    let conditions = &schema(&ours)["properties"]["status"]["properties"]["conditions"];
    assert_eq!(conditions["x-kubernetes-list-type"], "map");
    assert_eq!(conditions["x-kubernetes-list-map-keys"], json!(["type"]));
}

#[test]
fn an_object_without_a_spec_is_read_and_written_without_one() {
    let text = r#"{"apiVersion":"resource.nvidia.com/v1beta1","kind":"ComputeDomain","metadata":{"name":"a"}}"#;
    let domain: ComputeDomain = serde_json::from_str(text).unwrap();
    assert_eq!(domain.spec(), None);
    assert_eq!(serde_json::to_string(&domain).unwrap(), text);
}

#[test]
fn a_status_has_observed_generation() {
    let status: ComputeDomainStatus = serde_json::from_value(json!({
        "status": "Ready", "observedGeneration": 7,
    }))
    .unwrap();
    assert_eq!(status.observed_generation, Some(7));
    assert_eq!(
        serde_json::to_value(&status).unwrap(),
        json!({ "status": "Ready", "observedGeneration": 7 })
    );
    let silent = serde_json::to_value(ComputeDomainStatus::default()).unwrap();
    assert_eq!(silent, json!({ "status": "NotReady" }));
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
    walk("", schema(&our_crd()));
}

#[test]
fn the_reference_has_every_field() {
    let crd = our_crd();
    let columns = crd["spec"]["versions"][0]["additionalPrinterColumns"]
        .as_array()
        .unwrap();
    let text =
        |column: &Value, name: &str| reference::cell(column[name].as_str().unwrap_or_default());
    let columns = columns.iter().map(|column| {
        let [name, path, meaning] = ["name", "jsonPath", "description"].map(|it| text(column, it));
        format!("| {name} | `{path}` | {meaning} |\n")
    });
    let page = format!(
        "# ComputeDomain\n\n`{}`, namespaced. {}.\n\n## Fields\n\n{}\n## Columns of kubectl get\n\n\
         | column | field | |\n|---|---|---|\n{}",
        crate::names::API_VERSION,
        schema(&crd)["description"].as_str().unwrap(),
        reference::fields_table(schema(&crd)),
        columns.collect::<String>()
    );
    reference::assert_page("computedomain.md", env!("CARGO_PKG_NAME"), &page);
}
