//! Edits in a form in which ours and NVIDIA's compare.

use std::collections::{BTreeMap, BTreeSet};

use imex_cdi::{ContainerEdits, Hook};

/// A mount's host path, and its sorted options.
pub(crate) type Mounted = (String, String);

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Comparable {
    /// By container path. Host paths are inside the root, if they are inside.
    pub(crate) mounts: BTreeMap<String, Mounted>,
    /// By path: all requested targets. The last one stays.
    pub(crate) links: BTreeMap<String, Vec<String>>,
    pub(crate) folders: BTreeSet<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) version: String,
    pub(crate) hooks: BTreeSet<String>,
}

/// What our hook does in one call, by the names of NVIDIA's.
const OURS: [&str; 4] = [
    "create-symlinks",
    "disable-device-node-modification",
    "enable-cuda-compat",
    "update-ldcache",
];

/// What differs, each with our side first.
#[derive(Debug, PartialEq)]
pub(crate) enum Difference {
    Mount(String, Option<Mounted>, Option<Mounted>),
    Link(String, Vec<String>, Vec<String>),
    Folder(String, Side),
    Env(String, String, String),
    Version(String, String),
    Hook(String, Side),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Side {
    Ours,
    Theirs,
}

// === impl Comparable ===

impl Comparable {
    /// `root` is that of the edits' host paths.
    pub(crate) fn new(edits: &ContainerEdits, root: &str) -> Self {
        let mut it = Self::default();
        for mount in &edits.mounts {
            let host_path = mount
                .host_path
                .strip_prefix(root)
                .unwrap_or(&mount.host_path);
            let mut options = mount.options.clone();
            options.sort();
            let value = (host_path.to_owned(), options.join(","));
            it.mounts.insert(mount.container_path.clone(), value);
        }
        for variable in &edits.env {
            let (name, value) = variable.split_once('=').unwrap();
            it.env.insert(name.to_owned(), value.to_owned());
        }
        for hook in &edits.hooks {
            it.add_hook(hook);
        }
        it
    }

    fn add_hook(&mut self, hook: &Hook) {
        assert_eq!(hook.hook_name, "createContainer");
        let [_, name, args @ ..] = hook.args.as_slice() else {
            panic!("{hook:?}");
        };
        match name.as_str() {
            "container" => self.hooks.extend(OURS.map(str::to_owned)),
            name => {
                self.hooks.insert(name.to_owned());
            }
        }
        let args = args.iter().flat_map(|arg| match arg.split_once('=') {
            Some((option, value)) if arg.starts_with("--") => vec![option, value],
            _ => vec![arg.as_str()],
        });
        let args: Vec<&str> = args.collect();
        for pair in args.chunks(2) {
            let [option, value] = pair else {
                panic!("{args:?}");
            };
            match *option {
                "--link" => {
                    let (target, path) = value.rsplit_once("::").unwrap();
                    let targets = self.links.entry(path.to_owned()).or_default();
                    targets.push(target.to_owned());
                }
                "--folder" => {
                    self.folders.insert((*value).to_owned());
                }
                "--host-driver-version" => (*value).clone_into(&mut self.version),
                other => panic!("{other} of {name}"),
            }
        }
    }

    pub(crate) fn differences(&self, theirs: &Self) -> Vec<Difference> {
        let mut all = Vec::new();
        for path in union(self.mounts.keys(), theirs.mounts.keys()) {
            let (ours, theirs) = (self.mounts.get(path), theirs.mounts.get(path));
            if ours != theirs {
                all.push(Difference::Mount(
                    path.clone(),
                    ours.cloned(),
                    theirs.cloned(),
                ));
            }
        }
        let targets = |side: &Self, path| side.links.get(path).cloned().unwrap_or_default();
        for path in union(self.links.keys(), theirs.links.keys()) {
            let (ours, mut theirs) = (targets(self, path), targets(theirs, path));
            theirs.dedup();
            if ours != theirs {
                all.push(Difference::Link(path.clone(), ours, theirs));
            }
        }
        all.extend(
            sides(&self.folders, &theirs.folders).map(|(it, side)| Difference::Folder(it, side)),
        );
        all.extend(sides(&self.hooks, &theirs.hooks).map(|(it, side)| Difference::Hook(it, side)));
        let value = |side: &Self, name| side.env.get(name).cloned().unwrap_or_default();
        for name in union(self.env.keys(), theirs.env.keys()) {
            let (ours, theirs) = (value(self, name), value(theirs, name));
            if ours != theirs {
                all.push(Difference::Env(name.clone(), ours, theirs));
            }
        }
        if self.version != theirs.version {
            all.push(Difference::Version(
                self.version.clone(),
                theirs.version.clone(),
            ));
        }
        all
    }
}

fn union<'a>(
    a: impl Iterator<Item = &'a String>,
    b: impl Iterator<Item = &'a String>,
) -> BTreeSet<&'a String> {
    a.chain(b).collect()
}

fn sides<'a>(
    ours: &'a BTreeSet<String>,
    theirs: &'a BTreeSet<String>,
) -> impl Iterator<Item = (String, Side)> + 'a {
    let only_ours = ours.difference(theirs).map(|it| (it.clone(), Side::Ours));
    only_ours.chain(theirs.difference(ours).map(|it| (it.clone(), Side::Theirs)))
}
