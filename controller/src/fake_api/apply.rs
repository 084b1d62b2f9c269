//! Server-side apply: of labels, not forced, so that an owner keeps its label; and of a CRD, forced.

use serde_json::{Value, json};

use super::State;
use super::answer::Answer;
use super::request::Request;
use super::store::Writer;
use super::verbs::id;

/// Owner of labels that no manager has applied.
const ITS_CREATOR: &str = "node-feature-discovery";

impl State {
    /// Applies a CRD, forced: its versions become those of the request, and it is served at once. A
    /// resource version is a precondition.
    pub(super) fn apply_crd(&mut self, request: &Request) -> Result<Value, Answer> {
        let writer = Writer {
            manager: request.manager(),
            operation: "Apply",
        };
        assert_eq!(request.query("force"), "true");
        let version = &request.body["metadata"]["resourceVersion"];
        let served = json!([{ "type": "Established", "status": "True" }]);
        let mut body = request.body.clone();
        let Some(mut object) = self.store.get(&id(request)).cloned() else {
            if !version.is_null() {
                return Err(Answer::not_found(request.resource, &request.name));
            }
            body["status"] = json!({
                "conditions": served, "storedVersions": [body["spec"]["versions"][0]["name"]],
            });
            return self.store.create(request.resource, "", body, writer, false);
        };
        if !version.is_null() && *version != object["metadata"]["resourceVersion"] {
            let why = "the object has been modified; please apply your changes to the latest version and try again";
            return Err(Answer::conflict(request.resource, &request.name, why));
        }
        object["spec"] = body["spec"].take();
        object["status"]["conditions"] = served;
        self.store.update(id(request), object, writer)
    }

    /// Applies labels to an existing object with the UID of the request.
    pub(super) fn apply_labels(&mut self, request: &Request) -> Result<Value, Answer> {
        let conflict = |why: &str| Answer::conflict(request.resource, &request.name, why);
        let object = self.store.get(&id(request)).cloned();
        let wanted = &request.body["metadata"]["uid"];
        let mut object = object
            .filter(|object| object["metadata"]["uid"] == *wanted)
            .ok_or_else(|| conflict("uid mismatch"))?;
        let manager = request.manager();
        let applied = request.body["metadata"]["labels"].as_object().cloned();
        let applied = applied.unwrap_or_default();
        for (label, value) in &applied {
            let found = &object["metadata"]["labels"][label];
            let owners = self.owners(&request.name, label, found);
            if !found.is_null() && found != value && owners.iter().any(|it| it != manager) {
                let mut answer = conflict("Apply failed with 1 conflict");
                answer.body["details"] = json!({ "causes": [
                    { "reason": "FieldManagerConflict", "field": ".metadata.labels" },
                ] });
                return Err(answer);
            }
            object["metadata"]["labels"][label] = value.clone();
            let key = (request.name.clone(), label.clone());
            self.label_owners
                .entry(key)
                .or_insert(owners)
                .insert(manager.to_owned());
        }
        for ((node, label), owners) in &mut self.label_owners {
            let gone =
                *node == request.name && !applied.contains_key(label) && owners.remove(manager);
            if gone && owners.is_empty() {
                object["metadata"]["labels"][label] = Value::Null;
            }
        }
        if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
            labels.retain(|_, value| !value.is_null());
        }
        let writer = Writer {
            manager,
            operation: "Apply",
        };
        self.store.update(id(request), object, writer)
    }

    fn owners(&self, node: &str, label: &str, found: &Value) -> std::collections::BTreeSet<String> {
        let known = self.label_owners.get(&(node.to_owned(), label.to_owned()));
        let creator = (!found.is_null()).then(|| ITS_CREATOR.to_owned());
        known
            .cloned()
            .unwrap_or_else(|| creator.into_iter().collect())
    }
}
