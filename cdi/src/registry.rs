//! What the CDI spec files of a host say, read once.

mod answer;
mod dir;
mod explain;
mod file;
mod ignored;
mod mention;
mod near;

use std::path::Path;

pub use answer::{Conflict, Resolved, Unresolved};
pub use dir::{DirError, DirState, SpecDir};
pub use explain::{Candidate, Evidence, Explanation, Verdict};
pub use file::{LoadError, MAX_SPEC_LEN, SpecFile};
pub use ignored::{Ignored, IgnoredFile};
pub use near::NearMiss;

use crate::{DeviceName, Kind, QualifiedName};

/// The directories that runtimes read unless they are told otherwise, lowest
/// priority first.
pub const DEFAULT_DIRS: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

/// The spec files of some directories, as they were when it was loaded.
///
/// Which files count, and which of two wins, is as in the Go library
/// (`pkg/cdi/spec-dirs.go` and `cache.go` of
/// `tags.cncf.io/container-device-interface` v1.1.0), on which containerd,
/// CRI-O, podman and Docker stand:
///
/// * The files of a directory are those whose names end in `.json` or `.yaml`
///   exactly, hidden ones too, none of subdirectories, in the order of their
///   names' bytes. A link to a file is followed. A directory that is itself a
///   link is *not*, but links further up its path are. A "directory" that is a
///   file of such a name is read as that one file.
/// * A later directory wins over an earlier one, device by device. A directory
///   that is given twice is read twice, and wins over itself.
/// * A device that two files of one directory define resolves nowhere, also
///   when another directory has it once; the files' other devices stay.
/// * A file that cannot be read or is no valid spec defines nothing, and hides
///   nothing.
///
/// It differs where that library lets something bad hide something good: at a
/// directory whose status it may not read, Go leaves all later ones out; it
/// waits at a named pipe until somebody writes, and reads files of any length.
///
/// Devices share the spec of their file, so a registry takes memory in
/// proportion to the files' text.
#[derive(Debug)]
pub struct Registry {
    dirs: Vec<SpecDir>,
    /// Ascending by priority, then by name as Go walks a directory.
    files: Vec<SpecFile>,
    /// Every device of every valid file, ascending by name; those of one name
    /// in the order of their files.
    index: Vec<Slot>,
}

/// A device in the registry's files.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// Index in `files`, of a valid one.
    file: usize,
    /// Index in the devices of its spec.
    device: usize,
}

// === impl Registry ===

impl Registry {
    /// Reads the spec files of `dirs`, lowest priority first, usually those of
    /// [`DEFAULT_DIRS`].
    ///
    /// Never fails: what could not be read says so in [`dirs`](Self::dirs) and
    /// [`files`](Self::files) and hides nothing else.
    ///
    /// # Caveats
    ///
    /// For another root (a host seen from a debug pod) the caller joins the
    /// paths and resolves their links within that root: on many hosts
    /// `/var/run` is a link to `/run`, which the kernel would follow to the
    /// `/run` of the *caller*. A spec file that is itself a link with an
    /// absolute target is looked for below the caller's root.
    pub fn load<D: AsRef<Path>>(dirs: &[D]) -> Self {
        let mut registry = Self {
            dirs: Vec::with_capacity(dirs.len()),
            files: Vec::new(),
            index: Vec::new(),
        };
        for (priority, dir) in dirs.iter().enumerate() {
            let (dir, files) = dir::load(dir.as_ref(), priority);
            registry.dirs.push(dir);
            registry.files.extend(files);
        }
        registry.index = registry.sorted_slots();
        registry
    }

    /// The directories, in the order in which they were given.
    pub fn dirs(&self) -> &[SpecDir] {
        &self.dirs
    }

    /// Every file that a runtime would try to read, good or bad, in the order
    /// in which it would.
    pub fn files(&self) -> &[SpecFile] {
        &self.files
    }

    /// The devices that resolve, ascending by name.
    pub fn devices(&self) -> impl Iterator<Item = Resolved<'_>> {
        self.groups().filter_map(|group| self.winner(group))
    }

    /// The devices that do not resolve because two files of one priority
    /// define them, ascending by name: one entry for each such directory.
    pub fn conflicts(&self) -> impl Iterator<Item = Conflict<'_>> {
        self.groups().flat_map(|group| self.conflicts_in(group))
    }

    /// The device of `name`.
    pub fn resolve(&self, name: &QualifiedName) -> Result<Resolved<'_>, Unresolved> {
        let group = self.group(name);
        if group.is_empty() {
            return Err(Unresolved::Unknown { name: name.clone() });
        }
        self.winner(group).ok_or_else(|| {
            let conflicts = self.conflicts_in(group);
            let files = conflicts.iter().flat_map(|conflict| &conflict.files);
            Unresolved::Conflict {
                name: name.clone(),
                files: files.map(|file| file.path.clone()).collect(),
            }
        })
    }

    fn sorted_slots(&self) -> Vec<Slot> {
        let specs = self.files.iter().enumerate();
        let mut slots: Vec<Slot> = specs
            .filter_map(|(file, read)| Some((file, read.spec.as_ref().ok()?)))
            .flat_map(|(file, spec)| {
                (0..spec.devices().len()).map(move |device| Slot { file, device })
            })
            .collect();
        // Stable: devices of one name keep the order of their files.
        slots.sort_by(|a, b| self.name_at(*a).cmp(&self.name_at(*b)));
        slots
    }

    /// The slots of one name after those of another.
    fn groups(&self) -> impl Iterator<Item = &[Slot]> {
        self.index
            .chunk_by(|a, b| self.name_at(*a) == self.name_at(*b))
    }

    fn group(&self, name: &QualifiedName) -> &[Slot] {
        let name = (name.kind(), name.device());
        let start = self
            .index
            .partition_point(|slot| self.name_at(*slot) < name);
        let rest = self.index.get(start..).unwrap_or_default();
        let len = rest.partition_point(|slot| self.name_at(*slot) == name);
        rest.get(..len).unwrap_or_default()
    }

    /// Which of one name's devices wins; `None` if two have one priority.
    fn winner(&self, group: &[Slot]) -> Option<Resolved<'_>> {
        let priority = |slot: &Slot| self.at(*slot).file.priority;
        let mut pairs = group.iter().zip(group.iter().skip(1));
        if pairs.any(|(a, b)| priority(a) == priority(b)) {
            return None;
        }
        group.last().map(|slot| self.at(*slot))
    }

    fn conflicts_in(&self, group: &[Slot]) -> Vec<Conflict<'_>> {
        let files: Vec<&SpecFile> = group.iter().map(|slot| self.at(*slot).file).collect();
        let Some(first) = group.first().map(|slot| self.at(*slot)) else {
            return Vec::new();
        };
        files
            .chunk_by(|a, b| a.priority == b.priority)
            .filter(|files| files.len() > 1)
            .map(|files| Conflict {
                name: first.name(),
                files: files.to_vec(),
            })
            .collect()
    }

    fn name_at(&self, slot: Slot) -> (&Kind, &DeviceName) {
        let Resolved { spec, device, .. } = self.at(slot);
        (spec.kind(), &device.name)
    }

    #[expect(
        clippy::indexing_slicing,
        clippy::expect_used,
        reason = "slots are made from these files' valid specs, and none of them ever changes"
    )]
    fn at(&self, slot: Slot) -> Resolved<'_> {
        let file = &self.files[slot.file];
        let spec = file.spec.as_ref().expect("a slot's file is valid");
        Resolved {
            file,
            spec,
            device: &spec.devices()[slot.device],
            index: slot.device,
        }
    }
}
