//! How Go's CDI library changes the lists of an OCI config, whatever their type.
//!
//! The functions follow `pkg/cdi/container-edits.go` of the library and
//! `generate/generate.go` of runtime-tools, which it calls.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Replaces the last variable of each item's name, or appends the item.
///
/// Of two variables of one name the last one wins in a runtime, so that is the one
/// to replace.
// req: CDI-23
pub(crate) fn set_env<T>(
    list: &mut Vec<T>,
    text_of: impl Fn(&T) -> Option<&str>,
    items: impl Iterator<Item = T>,
) {
    let name_of = |item: &T| text_of(item).map(|text| variable_name(text).to_owned());
    let named = |(at, item)| Some((name_of(item)?, at));
    // Later entries of a name overwrite earlier ones.
    let mut places: BTreeMap<String, usize> = list.iter().enumerate().filter_map(named).collect();
    for item in items {
        let name = name_of(&item);
        let place = name.as_ref().and_then(|name| places.get(name));
        if let Some(place) = place.and_then(|at| list.get_mut(*at)) {
            *place = item;
        } else {
            places.extend(name.map(|name| (name, list.len())));
            list.push(item);
        }
    }
}

/// For each item removes the first entry at its path, then replaces the next one at
/// that path, or appends the item.
// req: CDI-22
pub(crate) fn set_devices<T>(
    list: &mut Vec<T>,
    path_of: impl Fn(&T) -> Option<&str>,
    items: impl Iterator<Item = T>,
) {
    let mut slots = Slots::new(list, path_of);
    for item in items {
        slots.remove_first_like(&item);
        slots.replace_first_or_push(item);
    }
    slots.put_back(list);
}

/// For each item removes the first entry at its target and appends the item; then
/// sorts all entries stably by the depth of their targets, so that every mount
/// comes after those that may contain its target.
// req: CDI-23
pub(crate) fn set_mounts<T>(
    list: &mut Vec<T>,
    target_of: impl Fn(&T) -> Option<&str>,
    items: impl Iterator<Item = T>,
) {
    let mut slots = Slots::new(list, &target_of);
    for item in items {
        slots.remove_first_like(&item);
        slots.push(item);
    }
    slots.put_back(list);
    list.sort_by_cached_key(|mount| depth(target_of(mount).unwrap_or_default()));
}

/// Appends each of `gids` that the list does not have.
pub(super) fn add_gids<T: From<u32>>(
    list: &mut Vec<T>,
    gid_of: impl Fn(&T) -> Option<u32>,
    gids: impl Iterator<Item = u32>,
) {
    let mut known: BTreeSet<u32> = list.iter().filter_map(gid_of).collect();
    list.extend(gids.filter(|gid| known.insert(*gid)).map(T::from));
}

/// A list being changed, in which each item is found by its key.
struct Slots<T, K> {
    /// Removed items leave an empty slot.
    items: Vec<Option<T>>,
    /// The slots of the items of each key, ascending; `None` is the key of items
    /// without one.
    places: BTreeMap<Option<String>, VecDeque<usize>>,
    key_of: K,
}

impl<T, K: Fn(&T) -> Option<&str>> Slots<T, K> {
    /// Leaves `list` empty.
    fn new(list: &mut Vec<T>, key_of: K) -> Self {
        let mut slots = Self {
            items: Vec::with_capacity(list.len()),
            places: BTreeMap::new(),
            key_of,
        };
        for item in list.drain(..) {
            slots.push(item);
        }
        slots
    }

    fn places_like(&mut self, item: &T) -> &mut VecDeque<usize> {
        let key = (self.key_of)(item).map(str::to_owned);
        self.places.entry(key).or_default()
    }

    fn remove_first_like(&mut self, item: &T) {
        let place = self.places_like(item).pop_front();
        if let Some(slot) = place.and_then(|at| self.items.get_mut(at)) {
            *slot = None;
        }
    }

    fn replace_first_or_push(&mut self, item: T) {
        let place = self.places_like(&item).front().copied();
        match place.and_then(|at| self.items.get_mut(at)) {
            Some(slot) => *slot = Some(item),
            None => self.push(item),
        }
    }

    fn push(&mut self, item: T) {
        let end = self.items.len();
        self.places_like(&item).push_back(end);
        self.items.push(Some(item));
    }

    fn put_back(self, list: &mut Vec<T>) {
        list.extend(self.items.into_iter().flatten());
    }
}

fn variable_name(assignment: &str) -> &str {
    assignment
        .split_once('=')
        .map_or(assignment, |(name, _)| name)
}

/// How many slashes `path` has after Go's `filepath.Clean`, which resolves `.`, `..`
/// and repeated slashes.
fn depth(path: &str) -> usize {
    let absolute = path.starts_with('/');
    // Names that a later `..` removes, and the leading `..` of a relative path.
    let (mut names, mut outside) = (0_usize, 0_usize);
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if names > 0 => names -= 1,
            ".." if absolute => {}
            ".." => outside += 1,
            _ => names += 1,
        }
    }
    if absolute {
        names.max(1)
    } else {
        (names + outside).saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[expect(
        clippy::unnecessary_wraps,
        reason = "the lists take keys that may be absent"
    )]
    fn key<'a>(item: &'a &str) -> Option<&'a str> {
        Some(item.split_once('@').map_or(*item, |(key, _)| key))
    }

    fn changed(
        change: impl Fn(&mut Vec<&'static str>, &'static str),
        before: &[&'static str],
        item: &'static str,
    ) -> Vec<&'static str> {
        let mut list = before.to_vec();
        change(&mut list, item);
        list
    }

    #[test]
    fn a_variable_replaces_the_last_of_its_name_in_place() {
        let set = |list: &mut Vec<_>, item| set_env(list, key, [item].into_iter());
        assert_eq!(changed(set, &["A=1", "B=2"], "A=3"), ["A=3", "B=2"]);
        assert_eq!(changed(set, &["A=1", "A=2", "B"], "A="), ["A=1", "A=", "B"]);
        assert_eq!(changed(set, &["A", "AB=1"], "A=b=c"), ["A=b=c", "AB=1"]);
        assert_eq!(changed(set, &["B=1"], "A=1"), ["B=1", "A=1"]);
    }

    #[test]
    fn a_device_takes_the_place_of_the_one_at_its_path() {
        let set = |list: &mut Vec<_>, item| set_devices(list, key, [item].into_iter());
        assert_eq!(changed(set, &["/a@1", "/b@1"], "/a@2"), ["/b@1", "/a@2"]);
        assert_eq!(
            changed(set, &["/a@1", "/a@2", "/b@1"], "/a@3"),
            ["/a@3", "/b@1"]
        );
        assert_eq!(changed(set, &["/b@1"], "/a@2"), ["/b@1", "/a@2"]);
    }

    #[test]
    fn a_mount_is_appended_and_the_first_at_its_target_is_removed() {
        let set = |list: &mut Vec<_>, item| set_mounts(list, key, [item].into_iter());
        assert_eq!(
            changed(set, &["/a@1", "/a@2", "/b"], "/a@3"),
            ["/a@2", "/b", "/a@3"]
        );
    }

    #[test]
    fn mounts_of_one_depth_keep_their_order() {
        let mut mounts = vec!["/a/b/c", "/b", "/", "/a//d/", "/a", "e", "/x/../y/./z"];
        set_mounts(&mut mounts, key, std::iter::empty());
        assert_eq!(
            mounts,
            ["e", "/b", "/", "/a", "/a//d/", "/x/../y/./z", "/a/b/c"]
        );
    }

    /// The figures are those of Go's `strings.Count(filepath.Clean(p), "/")`.
    #[test]
    fn the_depth_of_a_path_is_that_of_the_cleaned_path() {
        let cases = [
            ("", 0),
            ("/", 1),
            ("//", 1),
            ("a", 0),
            ("a/b", 1),
            ("/a", 1),
            ("/a/b", 2),
            ("/a/..", 1),
            ("/../a", 1),
            ("..", 0),
            ("../..", 1),
            ("../a", 1),
            ("a/..", 0),
            ("a/../..", 0),
            ("a/../../b", 1),
            ("./a/./b/", 1),
            ("/.../a", 2),
        ];
        for (path, slashes) in cases {
            assert_eq!(depth(path), slashes, "{path:?}");
        }
    }

    /// A model that changes a list item by item, with a full search for each.
    mod one_by_one {
        use super::{depth, key};

        pub(super) fn set_env(list: &mut Vec<&'static str>, item: &'static str) {
            let name = |item: &&str| item.split('=').next().map(str::to_owned);
            match list.iter().rposition(|other| name(other) == name(&item)) {
                Some(at) => list[at] = item,
                None => list.push(item),
            }
        }

        pub(super) fn set_device(list: &mut Vec<&'static str>, item: &'static str) {
            remove(list, item);
            match list.iter().position(|other| key(other) == key(&item)) {
                Some(at) => list[at] = item,
                None => list.push(item),
            }
        }

        pub(super) fn set_mounts(list: &mut Vec<&'static str>, items: &[&'static str]) {
            for item in items {
                remove(list, item);
                list.push(item);
            }
            list.sort_by_key(|mount| depth(key(mount).unwrap()));
        }

        fn remove(list: &mut Vec<&'static str>, item: &'static str) {
            if let Some(at) = list.iter().position(|other| key(other) == key(&item)) {
                list.remove(at);
            }
        }
    }

    fn items(of: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
        proptest::collection::vec(proptest::sample::select(of), 0..12)
    }

    const VARIABLES: &[&str] = &["A=1", "A=2", "A", "B=1", "B=", "AB=1", "C=3"];
    const PATHS: &[&str] = &["/a@1", "/a@2", "/a/b@1", "/a/b@2", "/c@1", "/@1", "c@1"];

    proptest! {
        #[test]
        fn all_items_at_once_give_the_same_as_one_by_one(
            env in (items(VARIABLES), items(VARIABLES)),
            paths in (items(PATHS), items(PATHS)),
        ) {
            let (mut ours, mut model) = (env.0.clone(), env.0);
            set_env(&mut ours, |item| Some(item), env.1.iter().copied());
            for item in env.1 {
                one_by_one::set_env(&mut model, item);
            }
            prop_assert_eq!(ours, model);

            let (before, items) = paths;
            let (mut ours, mut model) = (before.clone(), before.clone());
            set_devices(&mut ours, key, items.iter().copied());
            for item in &items {
                one_by_one::set_device(&mut model, item);
            }
            prop_assert_eq!(ours, model);

            let (mut ours, mut model) = (before.clone(), before);
            set_mounts(&mut ours, key, items.iter().copied());
            one_by_one::set_mounts(&mut model, &items);
            prop_assert_eq!(ours, model);
        }
    }
}
