//! The objects of one kind, by UID, from a watch and from responses.

use std::collections::HashMap;

use crate::version::Version;

/// The objects of one kind, by UID.
///
/// List, watch and responses deliver the same objects, and each may be late. Of two copies of an object, the one with
/// the newer version is kept. Between an object and its absence, two rules decide:
///
/// * The watch is right up to its newest version. If a response has an older version, and the watch does not have the
///   object, the object is deleted.
/// * An object that is missing in a list is deleted, unless it was learnt from a response since the list began and is
///   newer than everything in the list. During a list, the absence of an object proves nothing.
///
/// # Assumptions
/// A response is learnt before the end of any list that was requested after it. A later response could restore an
/// object that was deleted in between, until the next list.
#[derive(Debug)]
pub(super) struct Versioned<T> {
    entries: HashMap<Box<str>, Entry<T>>,
    /// The newest version that the watch has delivered. A list counts once it is complete.
    newest: Version,
    /// The newest version in the current list.
    newest_listed: Version,
    is_listing: bool,
    /// The number of lists that have begun.
    list: u32,
    listed_once: bool,
}

#[derive(Debug)]
struct Entry<T> {
    version: Version,
    /// The list during or after which it was last delivered.
    list: u32,
    /// Whether only a response has delivered it since then.
    learnt: bool,
    value: T,
}

impl<T> Default for Versioned<T> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            newest: Version::default(),
            newest_listed: Version::default(),
            is_listing: false,
            list: 0,
            listed_once: false,
        }
    }
}

impl<T> Versioned<T> {
    /// A list begins.
    pub(super) fn begin(&mut self) {
        self.list = self.list.wrapping_add(1);
        self.newest_listed = Version::default();
        self.is_listing = true;
    }

    /// The list has ended. Returns the objects that are deleted.
    pub(super) fn finish(&mut self) -> Vec<T> {
        self.is_listing = false;
        self.listed_once = true;
        let (list, newest_listed) = (self.list, self.newest_listed);
        self.newest = self.newest.max(newest_listed);
        let is_missing = |entry: &Entry<T>| {
            entry.list != list || (entry.learnt && entry.version <= newest_listed)
        };
        let gone = self.entries.extract_if(|_, entry| is_missing(entry));
        gone.map(|(_, entry)| entry.value).collect()
    }

    /// Whether everything that existed at the start is known.
    pub(super) fn is_listed_once(&self) -> bool {
        self.listed_once
    }

    /// The watch or its list has delivered this object. Returns whether it is newer.
    pub(super) fn apply(&mut self, uid: Box<str>, version: Version, value: T) -> bool {
        let newest = if self.is_listing {
            &mut self.newest_listed
        } else {
            &mut self.newest
        };
        *newest = version.max(*newest);
        let list = self.list;
        let change = match self.entries.get_mut(&uid) {
            // An object whose version cannot be compared always counts as newer.
            _ if version == Version::default() => true,
            // A list shows a state after its beginning, so it is right about everything that was not
            // delivered later. It has older versions only after a backup was restored: then versions
            // continue from there.
            Some(entry) if entry.list != list => {
                if version < entry.version {
                    self.newest = Version::default();
                }
                version != entry.version
            }
            Some(entry) if version <= entry.version => {
                entry.learnt = false;
                return false;
            }
            _ => true,
        };
        self.insert(uid, version, value, false);
        change
    }

    /// Stores an object from a response. Returns whether it was stored: not if the watch has delivered something newer.
    ///
    /// An object of the same version is stored. When a patch removes the last finalizer of an object that is being
    /// deleted, the response has the former version without the finalizer.
    pub(super) fn learn(&mut self, uid: Box<str>, version: Version, value: T) -> bool {
        let list = self.list;
        let (outdated, learnt) = match self.entries.get(&uid) {
            Some(entry) => (version < entry.version, entry.learnt || entry.list != list),
            None => (version <= self.newest, true),
        };
        if !outdated {
            self.insert(uid, version, value, learnt);
        }
        !outdated
    }

    pub(super) fn remove(&mut self, uid: &str) -> Option<T> {
        self.entries.remove(uid).map(|entry| entry.value)
    }

    pub(super) fn get(&self, uid: &str) -> Option<&T> {
        self.entries.get(uid).map(|entry| &entry.value)
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.values().map(|entry| &entry.value)
    }

    fn insert(&mut self, uid: Box<str>, version: Version, value: T, learnt: bool) {
        let entry = Entry {
            version,
            list: self.list,
            learnt,
            value,
        };
        self.entries.insert(uid, entry);
    }
}
