//! The objects and their history.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::answer::Answer;
use super::resource::Resource;

/// Identity of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    pub(super) resource: Resource,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// A change of an object.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) revision: u64,
    pub(super) resource: Resource,
    pub(super) namespace: String,
    pub(super) before: Option<Value>,
    pub(super) after: Option<Value>,
}

/// Field manager and operation: an entry of `metadata.managedFields`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writer<'a> {
    pub(super) manager: &'a str,
    pub(super) operation: &'a str,
}

/// The objects at one time, as in a snapshot of etcd.
#[derive(Clone)]
pub(crate) struct Snapshot {
    objects: BTreeMap<Id, Value>,
    log: Vec<Change>,
    revision: u64,
}

#[derive(Default)]
pub(super) struct Store {
    objects: BTreeMap<Id, Value>,
    log: Vec<Change>,
    revision: u64,
    /// Number of objects ever created.
    created: u64,
    /// Watches from an earlier revision have lost their history.
    compacted: u64,
    pub(super) terminating: BTreeSet<String>,
    /// Whether the CRD of `ComputeDomains` lacks the same fields as the Go driver's.
    pub(super) older_crd: bool,
    /// Whether it lacks only the field of the channel.
    pub(super) crd_without_channel: bool,
    /// How the server changes objects of a kind before it stores them: it lacks a
    /// field, or a webhook changes them.
    pub(super) changes: BTreeMap<Resource, fn(&mut Value)>,
}

// === impl Store ===

impl Store {
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot {
            objects: self.objects.clone(),
            log: self.log.clone(),
            revision: self.revision,
        }
    }

    /// Drops all changes since the snapshot; their revisions are assigned again.
    pub(super) fn restore(&mut self, snapshot: Snapshot) {
        self.objects = snapshot.objects;
        self.log = snapshot.log;
        self.revision = snapshot.revision;
    }

    /// Drops the history.
    pub(super) fn compact(&mut self) {
        self.revision += 1;
        self.compacted = self.revision;
    }

    /// Whether some changes after this revision were dropped.
    pub(super) fn is_forgotten(&self, revision: u64) -> bool {
        revision < self.compacted
    }

    /// Whether the CRD of `ComputeDomains` lacks this field of the status.
    pub(super) fn crd_lacks(&self, field: &str) -> bool {
        self.older_crd || (self.crd_without_channel && field == "channel")
    }

    pub(super) fn get(&self, id: &Id) -> Option<&Value> {
        self.objects.get(id)
    }

    pub(super) fn all(&self, resource: Resource) -> impl Iterator<Item = (&Id, &Value)> {
        let objects = self.objects.iter();
        objects.filter(move |(id, _)| id.resource == resource)
    }

    /// The changes after this revision.
    pub(super) fn since(&self, revision: u64) -> impl Iterator<Item = &Change> {
        let seen = self
            .log
            .partition_point(|change| change.revision <= revision);
        self.log[seen..].iter()
    }

    /// Creates an object, or with `dry_run` only returns it.
    pub(super) fn create(
        &mut self,
        resource: Resource,
        namespace: &str,
        mut object: Value,
        writer: Writer<'_>,
        dry_run: bool,
    ) -> Result<Value, Answer> {
        self.created += 1;
        let metadata = &mut object["metadata"];
        if let Some(prefix) = metadata["generateName"].as_str() {
            metadata["name"] = json!(format!("{prefix}{:05}", self.created));
        }
        let name = metadata["name"].as_str().unwrap_or_default().to_owned();
        if self.terminating.contains(namespace) {
            return Err(Answer::terminating(resource, &name, namespace));
        }
        let id = Id {
            resource,
            namespace: namespace.to_owned(),
            name,
        };
        if self.objects.contains_key(&id) {
            return Err(Answer::already_exists(resource, &id.name));
        }
        if !namespace.is_empty() {
            metadata["namespace"] = json!(namespace);
        }
        metadata["uid"] = json!(format!("{}-{}", resource.plural(), self.created));
        metadata["creationTimestamp"] = json!(time(self.revision));
        metadata["generation"] = json!(1);
        object["apiVersion"] = json!(resource.api_version());
        object["kind"] = json!(resource.kind());
        self.change(resource, &mut object);
        if dry_run {
            return Ok(object);
        }
        note_writer(&mut object, writer, self.revision);
        Ok(self.store(id, None, Some(object)).unwrap())
    }

    /// Replaces an object. Removing the last finalizer of an object that is being deleted
    /// deletes it: the response then has the previous version.
    pub(super) fn update(
        &mut self,
        id: Id,
        mut after: Value,
        writer: Writer<'_>,
    ) -> Result<Value, Answer> {
        let before = self.objects.get(&id).cloned();
        let before = before.ok_or_else(|| Answer::not_found(id.resource, &id.name))?;
        self.change(id.resource, &mut after);
        drop_empty_metadata(&mut after);
        if before == after {
            return Ok(before);
        }
        let deleting = before["metadata"].get("deletionTimestamp").is_some();
        if deleting && !is_subset(&finalizers(&after), &finalizers(&before)) {
            return Err(Answer::invalid(
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted",
            ));
        }
        if before["spec"] != after["spec"] {
            let generation = before["metadata"]["generation"]
                .as_u64()
                .unwrap_or_default();
            after["metadata"]["generation"] = json!(generation + 1);
        }
        note_writer(&mut after, writer, self.revision);
        if deleting && finalizers(&after).is_empty() {
            self.store(id, Some(before), None);
            return Ok(after);
        }
        Ok(self.store(id, Some(before), Some(after)).unwrap())
    }

    /// Deletes an object. If finalizers keep it, marks and returns it.
    pub(super) fn delete(&mut self, id: Id, uid: Option<&str>) -> Result<Option<Value>, Answer> {
        let before = self.objects.get(&id).cloned();
        let before = before.ok_or_else(|| Answer::not_found(id.resource, &id.name))?;
        let found = before["metadata"]["uid"].as_str();
        if let Some(uid) = uid
            && found != Some(uid)
        {
            let why = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {found:?}"
            );
            return Err(Answer::conflict(id.resource, &id.name, &why));
        }
        if finalizers(&before).is_empty() {
            self.store(id, Some(before), None);
            return Ok(None);
        }
        if before["metadata"].get("deletionTimestamp").is_some() {
            return Ok(Some(before));
        }
        let mut after = before.clone();
        let generation = before["metadata"]["generation"]
            .as_u64()
            .unwrap_or_default();
        after["metadata"]["generation"] = json!(generation + 1);
        after["metadata"]["deletionTimestamp"] = json!(time(self.revision));
        after["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        Ok(self.store(id, Some(before), Some(after)))
    }

    /// All objects, for the message of a failed test.
    pub(super) fn dump(&self) -> String {
        let objects = self.objects.iter();
        let objects = objects.filter(|(id, _)| id.resource != Resource::Events);
        let lines: Vec<_> = objects
            .map(|(id, object)| format!("{id:?} {object}"))
            .collect();
        lines.join("\n")
    }

    fn change(&self, resource: Resource, object: &mut Value) {
        if let Some(change) = self.changes.get(&resource) {
            change(object);
        }
    }

    /// Stores a change with the next revision.
    fn store(&mut self, id: Id, before: Option<Value>, after: Option<Value>) -> Option<Value> {
        self.revision += 1;
        let version = json!(self.revision.to_string());
        let after = after.map(|mut after| {
            after["metadata"]["resourceVersion"] = version.clone();
            drop_empty_metadata(&mut after);
            after
        });
        self.log.push(Change {
            revision: self.revision,
            resource: id.resource,
            namespace: id.namespace.clone(),
            before,
            after: after.clone(),
        });
        match &after {
            Some(after) => drop(self.objects.insert(id, after.clone())),
            None => drop(self.objects.remove(&id)),
        }
        after
    }
}

/// An empty list or map is not stored.
fn drop_empty_metadata(object: &mut Value) {
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.retain(|_, value| *value != json!([]) && *value != json!({}));
}

/// A unique time for each revision.
fn time(revision: u64) -> String {
    let epoch: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    let seconds = epoch.as_second() + i64::try_from(revision).unwrap();
    Timestamp::from_second(seconds).unwrap().to_string()
}

fn finalizers(object: &Value) -> Vec<&str> {
    let finalizers = object["metadata"]["finalizers"].as_array();
    let finalizers = finalizers.into_iter().flatten();
    finalizers.filter_map(Value::as_str).collect()
}

fn is_subset(some: &[&str], all: &[&str]) -> bool {
    some.iter().all(|it| all.contains(it))
}

fn note_writer(object: &mut Value, writer: Writer<'_>, revision: u64) {
    if writer.manager.is_empty() {
        return;
    }
    let metadata = &mut object["metadata"];
    if !metadata["managedFields"].is_array() {
        metadata["managedFields"] = json!([]);
    }
    let entries = metadata["managedFields"].as_array_mut().unwrap();
    entries.retain(|entry| {
        entry["manager"] != writer.manager || entry["operation"] != writer.operation
    });
    entries.push(json!({
        "manager": writer.manager, "operation": writer.operation, "time": time(revision),
    }));
}
