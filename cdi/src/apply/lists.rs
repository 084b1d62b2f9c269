//! How the CDI library changes each list of an OCI config, whatever holds it.
//!
//! The functions follow `pkg/cdi/container-edits.go` of the CDI library and
//! `generate/generate.go` of runtime-tools, which it calls.

/// Puts `item` in place of the last one named `name`, or at the end.
///
/// Of two variables of one name a runtime lets the last win, so that is the
/// one to replace.
pub(super) fn set_env<T>(list: &mut Vec<T>, name_of: impl Fn(&T) -> Option<&str>, item: T) {
    let name = name_of(&item).map(variable_name);
    let place = list
        .iter()
        .rposition(|other| name.is_some() && name_of(other).map(variable_name) == name);
    match place.and_then(|at| list.get_mut(at)) {
        Some(place) => *place = item,
        None => list.push(item),
    }
}

/// Takes the first one at `item`'s path away, then puts `item` in place of the
/// next one at that path, or at the end.
pub(super) fn set_device<T>(list: &mut Vec<T>, path_of: impl Fn(&T) -> Option<&str>, item: T) {
    remove_first(list, &path_of, &item);
    match list
        .iter_mut()
        .find(|other| path_of(other) == path_of(&item))
    {
        Some(place) => *place = item,
        None => list.push(item),
    }
}

/// Takes the first one at `item`'s target away and puts `item` at the end.
pub(super) fn set_mount<T>(list: &mut Vec<T>, target_of: impl Fn(&T) -> Option<&str>, item: T) {
    remove_first(list, &target_of, &item);
    list.push(item);
}

/// Brings every mount behind those that may hold its target: by depth of the
/// target, those of one depth in their order.
pub(super) fn sort_mounts<T>(list: &mut [T], target_of: impl Fn(&T) -> Option<&str>) {
    list.sort_by_key(|mount| depth(target_of(mount).unwrap_or_default()));
}

fn remove_first<T>(list: &mut Vec<T>, key_of: impl Fn(&T) -> Option<&str>, item: &T) {
    if let Some(at) = list.iter().position(|other| key_of(other) == key_of(item)) {
        list.remove(at);
    }
}

fn variable_name(assignment: &str) -> &str {
    assignment
        .split_once('=')
        .map_or(assignment, |(name, _)| name)
}

/// How many slashes `path` has once `.`, `..` and repeated slashes are worked
/// out, as Go's `filepath.Clean` does.
fn depth(path: &str) -> usize {
    let absolute = path.starts_with('/');
    // Names that a later `..` may take back, and the `..` that lead out of a
    // relative path.
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
        let set = |list: &mut Vec<_>, item| set_env(list, key, item);
        assert_eq!(changed(set, &["A=1", "B=2"], "A=3"), ["A=3", "B=2"]);
        assert_eq!(changed(set, &["A=1", "A=2", "B"], "A="), ["A=1", "A=", "B"]);
        assert_eq!(changed(set, &["A", "AB=1"], "A=b=c"), ["A=b=c", "AB=1"]);
        assert_eq!(changed(set, &["B=1"], "A=1"), ["B=1", "A=1"]);
    }

    #[test]
    fn a_device_takes_the_place_of_the_one_at_its_path() {
        let set = |list: &mut Vec<_>, item| set_device(list, key, item);
        assert_eq!(changed(set, &["/a@1", "/b@1"], "/a@2"), ["/b@1", "/a@2"]);
        assert_eq!(
            changed(set, &["/a@1", "/a@2", "/b@1"], "/a@3"),
            ["/a@3", "/b@1"]
        );
        assert_eq!(changed(set, &["/b@1"], "/a@2"), ["/b@1", "/a@2"]);
    }

    #[test]
    fn a_mount_goes_to_the_end_and_the_first_at_its_target_goes_away() {
        let set = |list: &mut Vec<_>, item| set_mount(list, key, item);
        assert_eq!(
            changed(set, &["/a@1", "/a@2", "/b"], "/a@3"),
            ["/a@2", "/b", "/a@3"]
        );
    }

    #[test]
    fn mounts_of_one_depth_keep_their_order() {
        let mut mounts = vec!["/a/b/c", "/b", "/", "/a//d/", "/a", "e", "/x/../y/./z"];
        sort_mounts(&mut mounts, key);
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
}
