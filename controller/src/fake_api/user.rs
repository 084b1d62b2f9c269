//! Changes by clients other than the controller: immediate, without a request.

use serde_json::Value;

use super::FakeApi;
use super::resource::Resource;
use super::store::{Id, Writer};

/// Writes of `kubectl`.
const USER: Writer<'static> = Writer {
    manager: "kubectl",
    operation: "Update",
};

impl FakeApi {
    /// Creates an object. Returns the stored one.
    pub(crate) fn create(&self, object: Value) -> Value {
        let resource = Resource::of_kind(object["kind"].as_str().unwrap());
        let namespace = object["metadata"]["namespace"].as_str();
        let namespace = namespace.unwrap_or_default().to_owned();
        let created = self
            .state()
            .store
            .create(resource, &namespace, object, USER, false);
        self.changed();
        created.unwrap_or_else(|failure| panic!("{}", failure.body))
    }

    /// Deletes an object, if it exists.
    pub(crate) fn delete(&self, resource: Resource, namespace: &str, name: &str) {
        // A missing object is fine.
        let _ = self
            .state()
            .store
            .delete(id(resource, namespace, name), None);
        self.changed();
    }

    /// Changes an object.
    pub(crate) fn edit(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
        change: impl FnOnce(&mut Value),
    ) {
        self.edit_as(resource, namespace, name, USER.manager, change);
    }

    /// Changes an object as this field manager.
    pub(crate) fn edit_as(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
        manager: &str,
        change: impl FnOnce(&mut Value),
    ) {
        let id = id(resource, namespace, name);
        let mut state = self.state();
        let mut object = state.store.get(&id).unwrap().clone();
        change(&mut object);
        let writer = Writer { manager, ..USER };
        state.store.update(id, object, writer).unwrap();
        drop(state);
        self.changed();
    }

    pub(crate) fn get(&self, resource: Resource, namespace: &str, name: &str) -> Option<Value> {
        self.read(resource, namespace, name, Value::clone)
    }

    /// Reads an object without a copy.
    pub(crate) fn read<T>(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
        look: impl FnOnce(&Value) -> T,
    ) -> Option<T> {
        let state = self.state();
        state.store.get(&id(resource, namespace, name)).map(look)
    }

    /// Whether there is such an object.
    pub(crate) fn any(&self, resource: Resource, is: impl Fn(&Value) -> bool) -> bool {
        let state = self.state();
        state.store.all(resource).any(|(_, object)| is(object))
    }

    /// All objects of a kind.
    pub(crate) fn all(&self, resource: Resource) -> Vec<Value> {
        self.read_all(resource, |object| Some(object.clone()))
    }

    /// Reads all objects of a kind without copies.
    pub(crate) fn read_all<T>(
        &self,
        resource: Resource,
        look: impl Fn(&Value) -> Option<T>,
    ) -> Vec<T> {
        let state = self.state();
        let objects = state.store.all(resource);
        objects.filter_map(|(_, object)| look(object)).collect()
    }

    /// Reasons of the events, in the order of their names.
    pub(crate) fn event_reasons(&self) -> Vec<String> {
        let events = self.all(Resource::Events);
        let reason = |event: &Value| event["reason"].as_str().unwrap_or_default().to_owned();
        events.iter().map(reason).collect()
    }

    /// The note of an event with this reason, if there is one.
    pub(crate) fn event_note(&self, reason: &str) -> Option<String> {
        let events = self.all(Resource::Events);
        let event = events.iter().find(|event| event["reason"] == reason)?;
        Some(event["note"].as_str()?.to_owned())
    }

    /// Terminates a namespace: nothing can be created in it any more.
    pub(crate) fn terminate(&self, namespace: &str) {
        self.state().store.terminating.insert(namespace.to_owned());
    }

    /// Replaces the CRD of `ComputeDomains` with that of the Go driver's chart, or with ours.
    pub(crate) fn set_older_crd(&self, older: bool) {
        self.state().store.older_crd = older;
        self.changed();
    }

    /// Replaces it with the version before channels, or with ours.
    pub(crate) fn set_crd_without_channel(&self, without: bool) {
        self.state().store.crd_without_channel = without;
        self.changed();
    }

    /// Sets how the server, or a webhook, changes all objects of a kind that are written from now on.
    pub(crate) fn change_when_stored(&self, resource: Resource, change: fn(&mut Value)) {
        self.state().store.changes.insert(resource, change);
    }

    /// Makes every open watch lose its history.
    pub(crate) fn expire_watches(&self) {
        self.state().store.compact();
        self.changed();
    }
}

fn id(resource: Resource, namespace: &str, name: &str) -> Id {
    Id {
        resource,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}
