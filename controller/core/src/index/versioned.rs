//! The objects of one kind, by UID, as a watch and responses tell them.

use std::collections::HashMap;

use crate::version::Version;

/// The objects of one kind, by UID.
///
/// A list and a watch tell about the same objects, as do the responses to our requests; each may be
/// late. Versions decide between copies of an object. Between an object and its absence:
///
/// * the watch is right about what it has got to: a response that is older than the newest object
///   of the watch, about an object that the watch does not have, is of one that is gone;
/// * an object that is missing in a list is gone, unless it was learnt since the list began and is
///   newer than everything in the list. While a list is going on, the absence of an object says
///   nothing.
///
/// # Assumptions
/// A response is learnt before a list that was asked for after the request ends. A later one could
/// bring back an object that was removed in between, until the next list.
#[derive(Debug)]
pub(super) struct Versioned<T> {
    entries: HashMap<Box<str>, Entry<T>>,
    /// The newest version that the watch has told; of a list, once all of it is told.
    newest: Version,
    /// The newest version in the list that is going on.
    newest_listed: Version,
    is_listing: bool,
    /// Counts the lists that have begun.
    list: u32,
    listed_once: bool,
}

#[derive(Debug)]
struct Entry<T> {
    version: Version,
    /// The list during which, or after which, it was last told of.
    list: u32,
    /// Whether only a response has told of it since then.
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

    /// The list has ended. Returns the objects that are gone.
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

    /// The watch or its list has this object. Returns whether that is news.
    pub(super) fn apply(&mut self, uid: Box<str>, version: Version, value: T) -> bool {
        let newest = if self.is_listing {
            &mut self.newest_listed
        } else {
            &mut self.newest
        };
        *newest = version.max(*newest);
        let list = self.list;
        let change = match self.entries.get_mut(&uid) {
            // A version that cannot be compared is taken as it comes.
            _ if version == Version::default() => true,
            // A list is of a state after its beginning, so it is right about all that is not known
            // from later. It may have older versions: those of a restored backup, after which
            // versions begin again there.
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

    /// A response has this object. Returns whether it is taken: not if the watch has told more.
    ///
    /// One of the same version is: a patch that removes the last finalizer of an object that is being
    /// deleted answers with what it was, less the finalizer.
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
