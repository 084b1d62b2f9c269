//! The node's slices as they are known here: the watch's events and the answers to
//! our own writes, whichever came later.

use std::collections::BTreeMap;

use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::runtime::watcher::Event;

/// The node's slices of this driver, as the watch and our own writes show them.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) slices: BTreeMap<String, ResourceSlice>,
    /// The list in progress at the start of a watch.
    listing: BTreeMap<String, ResourceSlice>,
    pub(super) complete: bool,
}

impl Seen {
    /// Whether anything changed that we did not do ourselves.
    pub(super) fn take(&mut self, event: Event<ResourceSlice>) -> bool {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(slice) => {
                self.listing.insert(name(&slice).to_owned(), slice);
            }
            Event::InitDone => {
                self.slices = std::mem::take(&mut self.listing);
                self.complete = true;
                return true;
            }
            Event::Apply(slice) => return self.insert(slice),
            Event::Delete(slice) => {
                // The event of an earlier object of the same name may come late.
                let ours = self.slices.get(name(&slice));
                if ours.is_some_and(|ours| ours.metadata.uid == slice.metadata.uid) {
                    self.slices.remove(name(&slice));
                    return true;
                }
            }
        }
        false
    }

    /// False for what is known already, or older than that.
    pub(super) fn insert(&mut self, mut slice: ResourceSlice) -> bool {
        slice.metadata.managed_fields = None;
        let known = self.slices.get(name(&slice));
        if known.is_some_and(|known| !is_newer(&slice, known)) {
            return false;
        }
        self.slices.insert(name(&slice).to_owned(), slice);
        true
    }

    pub(super) fn replace(&mut self, slices: Vec<ResourceSlice>) {
        self.slices = slices
            .into_iter()
            .map(|slice| (name(&slice).to_owned(), slice))
            .collect();
        self.complete = true;
    }
}

pub(super) fn name(slice: &ResourceSlice) -> &str {
    slice.metadata.name.as_deref().unwrap_or_default()
}

/// Of two states of one name: another UID, or a higher resourceVersion (an integer
/// for every storage that Kubernetes has).
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
    fn the_event_of_our_own_write_is_no_news() {
        let mut seen = Seen::default();
        assert!(seen.insert(mk_slice("a", "10")));
        assert!(!seen.take(Event::Apply(mk_slice("a", "10"))));
        assert!(!seen.take(Event::Apply(mk_slice("a", "9"))));
        assert!(seen.take(Event::Apply(mk_slice("a", "11"))));
    }

    #[test]
    fn a_late_deletion_of_an_earlier_object_of_the_same_name_is_ignored() {
        let mut seen = Seen::default();
        seen.insert(mk_slice("new", "10"));
        assert!(!seen.take(Event::Delete(mk_slice("old", "9"))));
        assert!(seen.take(Event::Delete(mk_slice("new", "12"))));
        assert!(seen.slices.is_empty());
    }

    #[test]
    fn nothing_is_complete_before_the_first_list_is() {
        let mut seen = Seen::default();
        seen.take(Event::Init);
        seen.take(Event::InitApply(mk_slice("a", "1")));
        assert!(!seen.complete && seen.slices.is_empty());
        assert!(seen.take(Event::InitDone));
        assert!(seen.complete && seen.slices.len() == 1);
    }
}
