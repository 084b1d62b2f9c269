//! The objects of one kind in the API server, and their watch.

use std::collections::{BTreeMap, VecDeque};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Resource;
use serde_json::{Value, json};

use crate::objects::{Place, is_being_deleted, place, uid};
use crate::server::Failure;

/// A watch event.
#[derive(Clone, Debug)]
pub(crate) enum WatchEvent<K> {
    Begin,
    Apply(K),
    Finish,
    /// Deleted, with its last state.
    Delete(K),
}

pub(crate) struct Store<K> {
    objects: BTreeMap<Place, K>,
    /// Whether the watch selects an object.
    selects: fn(&ObjectMeta) -> bool,
    /// The events that the watch has yet to deliver; `None`: it has to list first.
    feed: Option<VecDeque<WatchEvent<K>>>,
}

impl<K: Resource + Clone> Store<K> {
    pub(crate) fn new(selects: fn(&ObjectMeta) -> bool) -> Self {
        Self {
            objects: BTreeMap::new(),
            selects,
            feed: None,
        }
    }

    pub(crate) fn get(&self, place: &Place) -> Option<&K> {
        self.objects.get(place)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &K> {
        self.objects.values()
    }

    pub(crate) fn places(&self) -> Vec<Place> {
        self.objects.keys().cloned().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    pub(crate) fn has_any_in(&self, namespace: &str) -> bool {
        self.objects.keys().any(|place| place.0 == namespace)
    }

    pub(crate) fn by_uid(&self, wanted: &str) -> Option<&K> {
        self.values().find(|object| uid(object.meta()) == wanted)
    }

    // === the watch ===

    /// The watch has failed: its undelivered events are lost, and it has to list again.
    pub(crate) fn break_watch(&mut self) {
        self.feed = None;
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.feed.is_some()
    }

    pub(crate) fn list(&mut self, random: &mut fastrand::Rng) {
        let selected = self.values().filter(|object| (self.selects)(object.meta()));
        let mut items: Vec<_> = selected.cloned().map(WatchEvent::Apply).collect();
        random.shuffle(&mut items);
        let begin = std::iter::once(WatchEvent::Begin);
        self.feed = Some(begin.chain(items).chain([WatchEvent::Finish]).collect());
    }

    pub(crate) fn has_news(&self) -> bool {
        self.feed.as_ref().is_some_and(|feed| !feed.is_empty())
    }

    pub(crate) fn next_event(&mut self) -> Option<WatchEvent<K>> {
        self.feed.as_mut()?.pop_front()
    }

    fn tell(&mut self, told: WatchEvent<K>) {
        if let Some(feed) = &mut self.feed {
            feed.push_back(told);
        }
    }

    // === writes ===

    /// Stores the object under this version. If it is being deleted without a finalizer, removes it instead, and
    /// returns it with its former version.
    pub(crate) fn put(&mut self, mut object: K, version: u64) -> K {
        let metadata = object.meta();
        let kept = metadata
            .finalizers
            .as_ref()
            .is_some_and(|it| !it.is_empty());
        if is_being_deleted(metadata) && !kept {
            self.remove(&place(object.meta()));
            return object;
        }
        object.meta_mut().resource_version = Some(version.to_string());
        let before = self.objects.insert(place(object.meta()), object.clone());
        if (self.selects)(object.meta()) {
            self.tell(WatchEvent::Apply(object.clone()));
        } else if let Some(before) = before.filter(|it| (self.selects)(it.meta())) {
            self.tell(WatchEvent::Delete(before));
        }
        object
    }

    /// Removes the object even if it has finalizers. The watch delivers that.
    pub(crate) fn remove(&mut self, place: &Place) {
        if let Some(removed) = self.objects.remove(place) {
            self.tell(WatchEvent::Delete(removed));
        }
    }

    /// Deletes the object, if it is not being deleted already.
    pub(crate) fn delete(&mut self, place: &Place, version: u64) -> Result<K, Failure> {
        let mut object = self.get(place).cloned().ok_or(Failure::NotFound)?;
        if is_being_deleted(object.meta()) {
            return Ok(object);
        }
        let metadata = object.meta_mut();
        metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
        metadata.generation = metadata.generation.map(|generation| generation + 1);
        Ok(self.put(object, version))
    }

    /// Applies a JSON patch of the finalizers.
    pub(crate) fn patch(
        &mut self,
        place: &Place,
        patch: &Value,
        version: u64,
    ) -> Result<K, Failure> {
        let mut object = self.get(place).cloned().ok_or(Failure::NotFound)?;
        let metadata = object.meta_mut();
        let before = metadata.finalizers.clone().unwrap_or_default();
        let after = patched(metadata, patch).ok_or(Failure::Outdated)?;
        let is_new = |finalizer: &String| !before.contains(finalizer);
        if is_being_deleted(metadata) && after.iter().any(is_new) {
            return Err(Failure::Outdated);
        }
        metadata.finalizers = Some(after).filter(|after| !after.is_empty());
        Ok(self.put(object, version))
    }
}

/// The finalizers after the patch; `None` if a test fails or there is no such place.
fn patched(metadata: &ObjectMeta, patch: &Value) -> Option<Vec<String>> {
    let finalizers = metadata.finalizers.clone().unwrap_or_default();
    let mut fields = json!({ "metadata": { "uid": metadata.uid } });
    if !finalizers.is_empty() {
        fields["metadata"]["finalizers"] = json!(finalizers);
    }
    for operation in patch.as_array()? {
        let at = operation["path"].as_str()?;
        let (parent, last) = at.rsplit_once('/')?;
        match operation["op"].as_str()? {
            "test" if fields.pointer(at).unwrap_or(&Value::Null) == &operation["value"] => {}
            "add" => {
                let value = operation["value"].clone();
                match fields.pointer_mut(parent)? {
                    Value::Array(items) if last == "-" => items.push(value),
                    parent => parent[last] = value,
                }
            }
            "remove" => {
                let index = last.parse().ok()?;
                fields.pointer_mut(parent)?.as_array_mut()?.remove(index);
            }
            _ => return None,
        }
    }
    serde_json::from_value(fields["metadata"]["finalizers"].take()).ok()
}
