//! A root file system as it is compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::container::Container;

/// Paths relative to the root, with what is there.
#[derive(Clone, PartialEq)]
pub(crate) struct Tree(pub(crate) BTreeMap<String, Node>);

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Node {
    Dir { mode: u32 },
    File { mode: u32, bytes: Vec<u8> },
    Link { target: String },
}

// === impl Tree ===

impl Tree {
    pub(crate) fn read(container: &Container) -> Self {
        let mut tree = Self(BTreeMap::new());
        tree.add(&container.root(), "");
        // Its name differs from container to container.
        let host = container.path().to_str().unwrap();
        for node in tree.0.values_mut() {
            if let Node::Link { target } = node {
                *target = target.replace(host, "/HOST");
            }
        }
        let nodes = tree.0.into_iter();
        let renamed = nodes.map(|(path, node)| (path.replace(host, "/HOST"), node));
        Self(renamed.collect())
    }

    fn add(&mut self, dir: &Path, prefix: &str) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let name = format!("{prefix}/{}", stable_name(name));
            let node = Node::read(&path);
            if matches!(node, Node::Dir { .. }) {
                self.add(&path, &name);
            }
            assert!(self.0.insert(name.clone(), node).is_none(), "{name} twice");
        }
    }

    /// The text of a file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        match self.0.get(path)? {
            Node::File { bytes, .. } => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    pub(crate) fn differences(&self, other: &Self) -> String {
        let paths: BTreeSet<_> = self.0.keys().chain(other.0.keys()).collect();
        let mut text = String::new();
        for path in paths {
            let (ours, theirs) = (self.0.get(path), other.0.get(path));
            if ours != theirs {
                let [ours, theirs] = [ours, theirs].map(|it| it.map(Node::describe));
                writeln!(text, "  {path}\n    ours   {ours:?}\n    NVIDIA {theirs:?}").unwrap();
            }
        }
        text
    }
}

/// The name without the part that each program chooses.
fn stable_name(name: &str) -> String {
    for (prefix, suffix) in [
        ("00-compat-", ".conf"),
        ("00-nvcr-", ".conf"),
        ("zz-nvcr-", ".conf"),
    ] {
        if name.starts_with(prefix) && name.ends_with(suffix) {
            return format!("{prefix}*{suffix}");
        }
    }
    name.to_owned()
}

// === impl Node ===

impl Node {
    fn read(path: &Path) -> Self {
        let metadata = path.symlink_metadata().unwrap();
        let mode = metadata.permissions().mode() & 0o7777;
        if metadata.is_symlink() {
            let target = fs::read_link(path).unwrap();
            Self::Link {
                target: target.to_str().unwrap().to_owned(),
            }
        } else if metadata.is_dir() {
            Self::Dir { mode }
        } else {
            Self::File {
                mode,
                bytes: fs::read(path).unwrap(),
            }
        }
    }

    fn describe(&self) -> String {
        match self {
            Self::File { mode, bytes } if bytes.len() < 400 => {
                format!("file {mode:o} {}", String::from_utf8_lossy(bytes))
            }
            Self::File { mode, bytes } => format!("file {mode:o} of {} bytes", bytes.len()),
            other => format!("{other:?}"),
        }
    }
}
