//! Cache of the node's slices, from the watch and from the responses to this process's
//! writes; the newer one wins.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::runtime::watcher::Event;

/// The node's slices of this driver, by name.
#[derive(Default)]
pub(super) struct SliceCache {
    pub(super) slices: BTreeMap<String, ResourceSlice>,
    /// The incomplete list while a watch begins.
    listing: BTreeMap<String, ResourceSlice>,
    /// Whether all slices have been listed once.
    pub(super) synced: bool,
}

// === impl SliceCache ===

impl SliceCache {
    /// Applies an event of the watch. Returns whether a slice changed other than by a write of
    /// this process.
    pub(super) fn apply(&mut self, event: Event<ResourceSlice>) -> bool {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(slice) => {
                self.listing.insert(name(&slice).to_owned(), slice);
            }
            Event::InitDone => {
                self.slices = std::mem::take(&mut self.listing);
                self.synced = true;
                return true;
            }
            Event::Apply(slice) => return self.insert(slice),
            Event::Delete(slice) => {
                // The event of an earlier object with the same name may be late.
                let ours = self.slices.get(name(&slice));
                if ours.is_some_and(|ours| ours.metadata.uid == slice.metadata.uid) {
                    self.slices.remove(name(&slice));
                    return true;
                }
            }
        }
        false
    }

    /// Stores a slice. Returns false if it is cached already, or older than the cached one.
    pub(super) fn insert(&mut self, mut slice: ResourceSlice) -> bool {
        slice.metadata.managed_fields = None;
        let known = self.slices.get(name(&slice));
        if known.is_some_and(|known| !is_newer(&slice, known)) {
            return false;
        }
        self.slices.insert(name(&slice).to_owned(), slice);
        true
    }

    /// The highest generation of the pool; 0 without slices.
    pub(super) fn generation(&self) -> i64 {
        let generations = self.slices.values().map(|slice| slice.spec.pool.generation);
        generations.max().unwrap_or_default()
    }

    pub(super) fn replace(&mut self, slices: Vec<ResourceSlice>) {
        self.slices = slices
            .into_iter()
            .map(|slice| (name(&slice).to_owned(), slice))
            .collect();
        self.synced = true;
    }
}

/// The name of a slice; every stored slice has one.
pub(super) fn name(slice: &ResourceSlice) -> &str {
    slice.metadata.name.as_deref().unwrap_or_default()
}

/// Whether `slice` is newer than `known`, which has the same name: it has another UID, or a
/// higher resourceVersion (an integer in every storage of Kubernetes).
fn is_newer(slice: &ResourceSlice, known: &ResourceSlice) -> bool {
    let version = |slice: &ResourceSlice| -> Option<u128> {
        slice.metadata.resource_version.as_deref()?.parse().ok()
    };
    if slice.metadata.uid == known.metadata.uid
        && let (Some(new), Some(old)) = (version(slice), version(known))
    {
        return new > old;
    }
    slice.metadata.resource_version != known.metadata.resource_version
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn mk_slice(uid: &str, version: &str) -> ResourceSlice {
        let metadata = ObjectMeta {
            name: Some("00000-d-n".into()),
            uid: Some(uid.into()),
            resource_version: Some(version.into()),
            ..Default::default()
        };
        ResourceSlice {
            metadata,
            ..Default::default()
        }
    }

    #[test]
    fn the_event_of_our_own_write_is_not_a_change() {
        let mut cache = SliceCache::default();
        assert!(cache.insert(mk_slice("a", "10")));
        assert!(!cache.apply(Event::Apply(mk_slice("a", "10"))));
        assert!(!cache.apply(Event::Apply(mk_slice("a", "9"))));
        assert!(cache.apply(Event::Apply(mk_slice("a", "11"))));
    }

    #[test]
    fn a_late_deletion_of_an_earlier_object_with_the_same_name_is_ignored() {
        let mut cache = SliceCache::default();
        cache.insert(mk_slice("new", "10"));
        assert!(!cache.apply(Event::Delete(mk_slice("old", "9"))));
        assert!(cache.apply(Event::Delete(mk_slice("new", "12"))));
        assert!(cache.slices.is_empty());
    }

    #[test]
    fn the_cache_is_synced_once_the_first_list_is_complete() {
        let mut cache = SliceCache::default();
        cache.apply(Event::Init);
        cache.apply(Event::InitApply(mk_slice("a", "1")));
        assert!(!cache.synced && cache.slices.is_empty());
        assert!(cache.apply(Event::InitDone));
        assert!(cache.synced && cache.slices.len() == 1);
    }
}
