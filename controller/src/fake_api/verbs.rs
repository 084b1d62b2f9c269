//! The server's handling of each request.

use http::Method;
use serde_json::{Value, json};

use super::State;
use super::answer::Answer;
use super::patch::{applied_items, apply_status, json_patch, merge_patch};
use super::request::Request;
use super::resource::Resource;
use super::store::{Id, Writer};

/// Default number of objects in a page.
const PAGE: usize = 500;

impl State {
    /// Serves a request, unless it is a watch.
    pub(super) fn serve(&mut self, request: &Request) -> Answer {
        let answer = match (request.method.clone(), request.name.as_str()) {
            (Method::GET, "") => Ok(self.list(request)),
            (Method::GET, _) => self.get(request),
            (Method::POST, "") => self.post(request),
            (Method::PUT, _) => self.put(request),
            (Method::PATCH, _) if request.subresource == "status" => self.patch_status(request),
            (Method::PATCH, _)
                if request.resource == Resource::Nodes && !request.body.is_array() =>
            {
                self.apply_labels(request)
            }
            (Method::PATCH, _) if request.resource == Resource::Crds => self.apply_crd(request),
            (Method::PATCH, _) => self.patch(request),
            (Method::DELETE, _) => self.delete(request),
            _ => Err(Answer::failure(
                405,
                "MethodNotAllowed",
                "method not allowed",
            )),
        };
        match answer {
            Ok(body) => Answer::ok(body),
            Err(failure) => failure,
        }
    }

    fn get(&self, request: &Request) -> Result<Value, Answer> {
        let object = self.store.get(&id(request)).cloned();
        object.ok_or_else(|| Answer::not_found(request.resource, &request.name))
    }

    /// A page of the selected objects. The token of the next page is the last name.
    fn list(&self, request: &Request) -> Value {
        let limit = request.query("limit").parse().unwrap_or(PAGE);
        let place = |id: &Id| format!("{}/{}", id.namespace, id.name);
        let after = request.query("continue");
        let mut wanted = self
            .store
            .all(request.resource)
            .filter(|(id, object)| is_wanted(request, &id.namespace, object))
            .filter(|(id, _)| after.is_empty() || *place(id) > *after);
        let page: Vec<_> = wanted.by_ref().take(limit).collect();
        let more = wanted.next().is_some();
        let next = page.last().filter(|_| more).map(|(id, _)| place(id));
        let items: Vec<_> = page
            .into_iter()
            .map(|(_, object)| shown(request, object))
            .collect();
        let kind = if request.metadata_only {
            "PartialObjectMetadata"
        } else {
            request.resource.kind()
        };
        json!({
            "apiVersion": request.resource.api_version(), "kind": format!("{kind}List"),
            "metadata": {
                "resourceVersion": self.store.revision().to_string(),
                "continue": next.unwrap_or_default(),
            },
            "items": items,
        })
    }

    fn post(&mut self, request: &Request) -> Result<Value, Answer> {
        let (writer, dry_run) = (updater(request), request.is_dry_run());
        let (namespace, object) = (&request.namespace, request.body.clone());
        self.store
            .create(request.resource, namespace, object, writer, dry_run)
    }

    fn put(&mut self, request: &Request) -> Result<Value, Answer> {
        let before = self.get(request)?;
        let version = &request.body["metadata"]["resourceVersion"];
        if !version.is_null() && *version != before["metadata"]["resourceVersion"] {
            let why = "the object has been modified; please apply your changes to the latest version and try again";
            return Err(Answer::conflict(request.resource, &request.name, why));
        }
        let mut after = before;
        if request.resource == Resource::Cliques {
            // Its fields are beside the metadata, and fields that the new object lacks are removed.
            let mut replaced = request.body.clone();
            let labels = replaced["metadata"]["labels"].take();
            replaced["metadata"] = after["metadata"].take();
            replaced["metadata"]["labels"] = labels;
            after = replaced;
        } else {
            after["spec"] = request.body["spec"].clone();
        }
        self.store.update(id(request), after, updater(request))
    }

    fn patch(&mut self, request: &Request) -> Result<Value, Answer> {
        let mut object = self.get(request)?;
        if request.body.is_array() {
            json_patch(&mut object, &request.body).map_err(|why| Answer::invalid(&why))?;
        } else {
            merge_patch(&mut object, &request.body)
                .map_err(|why| Answer::conflict(request.resource, &request.name, &why))?;
        }
        self.store.update(id(request), object, updater(request))
    }

    fn patch_status(&mut self, request: &Request) -> Result<Value, Answer> {
        if request.body.is_array() {
            return self.patch(request);
        }
        let mut object = self.get(request)?;
        let (wanted, found) = (&request.body["metadata"]["uid"], &object["metadata"]["uid"]);
        if !wanted.is_null() && wanted != found {
            let why = format!(
                "uid mismatch: the provided object specified uid {wanted}, and no existing object was found"
            );
            return Err(Answer::conflict(request.resource, &request.name, &why));
        }
        let fields = ["conditions", "observedGeneration", "channel"];
        let undeclared = fields
            .into_iter()
            .filter(|field| self.store.crd_lacks(field))
            .find(|field| !request.body["status"][*field].is_null());
        if let Some(field) = undeclared {
            let message = format!(
                "failed to create typed patch object ({}/{}; resource.nvidia.com/v1beta1, Kind=ComputeDomain): .status.{field}: field not declared in schema",
                request.namespace, request.name
            );
            return Err(Answer::failure(500, "InternalError", &message));
        }
        let owner = (found.to_string(), request.manager().to_owned());
        let before = self.applied.get(&owner).cloned().unwrap_or_default();
        let channel = object["status"]["channel"].take();
        apply_status(&mut object, &request.body, &before);
        if !channel.is_null() && channel != object["status"]["channel"] {
            return Err(Answer::invalid(
                "ComputeDomain.resource.nvidia.com is invalid: <nil>: Invalid value: A computeDomain.status.channel never changes",
            ));
        }
        if request.is_dry_run() {
            return Ok(object);
        }
        self.applied.insert(owner, applied_items(&request.body));
        let writer = Writer {
            manager: request.manager(),
            operation: "Apply",
        };
        self.store.update(id(request), object, writer)
    }

    fn delete(&mut self, request: &Request) -> Result<Value, Answer> {
        let preconditions = &request.body["preconditions"];
        let version = &preconditions["resourceVersion"];
        if !version.is_null() && *version != self.get(request)?["metadata"]["resourceVersion"] {
            let why = "Precondition failed: ResourceVersion";
            return Err(Answer::conflict(request.resource, &request.name, why));
        }
        let uid = preconditions["uid"].as_str();
        let kept = self.store.delete(id(request), uid)?;
        Ok(kept.unwrap_or_else(|| {
            json!({
                "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success",
                "details": { "name": request.name, "kind": request.resource.plural() },
            })
        }))
    }
}

pub(super) fn id(request: &Request) -> Id {
    Id {
        resource: request.resource,
        namespace: request.namespace.clone(),
        name: request.name.clone(),
    }
}

fn updater(request: &Request) -> Writer<'_> {
    Writer {
        manager: request.manager(),
        operation: "Update",
    }
}

/// Whether a list or watch selects this object: by namespace, by a label that it must have, with a
/// value or any, or with `!` must not have, and by fields of the spec.
pub(super) fn is_wanted(request: &Request, namespace: &str, object: &Value) -> bool {
    let selector = request.query("labelSelector");
    let has = |label: &str| object["metadata"]["labels"].get(label).is_some();
    let selected = match selector.strip_prefix('!') {
        Some(label) => !has(label),
        None => match selector.split_once('=') {
            Some((label, value)) => object["metadata"]["labels"][label] == *value,
            None => selector.is_empty() || has(selector),
        },
    };
    let fields = request.query("fieldSelector");
    let has_field = |field: &str| {
        let (path, value) = field.split_once('=').unwrap_or_default();
        let name = path.strip_prefix("spec.").unwrap_or_default();
        object["spec"][name].as_str().unwrap_or_default() == value
    };
    let selected = selected && (fields.is_empty() || fields.split(',').all(has_field));
    selected && (request.namespace.is_empty() || request.namespace == namespace)
}

/// The object, or only its metadata if the client requests that.
pub(super) fn shown(request: &Request, object: &Value) -> Value {
    if !request.metadata_only {
        return object.clone();
    }
    json!({
        "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
        "metadata": object["metadata"],
    })
}
