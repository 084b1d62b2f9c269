//! The spec files of some directories, and an index of their devices.

use std::path::Path;

use super::dir::{self, SpecDir};
use super::file::SpecFile;
use super::limits::{Budget, LimitExceeded, LoadLimits};
use super::resolution::{Conflict, ResolveError, Resolved};
use crate::{DeviceName, Kind, QualifiedName};

/// The spec files of some directories, as they were when the registry was loaded.
///
/// Which files are read, and which file defines a device, is as in Go's library
/// (`pkg/cdi/spec-dirs.go` and `cache.go` of
/// `tags.cncf.io/container-device-interface` v1.1.0), which containerd, CRI-O,
/// podman and Docker use:
///
/// * A directory's files are those with names that end in exactly `.json` or `.yaml`, including
///   hidden files but not subdirectories, in the order of their names' bytes. A link to a file is
///   followed. A directory that is itself a link is *not*, but links further up its path are. A
///   "directory" that is a file of such a name is read as that one file.
/// * A later directory wins over an earlier one, device by device. A directory
///   that is given twice is read twice, and wins over itself.
/// * A device that two files of one directory define is in conflict and does not
///   resolve, even if another directory defines it once. The files' other devices
///   are not affected.
/// * A file that cannot be read or is not a valid spec is skipped.
///
/// Unlike in Go's library, a bad directory or file never hides a good one: if it
/// cannot stat a directory, Go skips all later ones; it blocks at a named pipe until a process
/// writes to it, and it reads files of any length.
///
/// Devices share the spec of their file, so memory use is proportional to the
/// length of the files.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use imex_cdi::{QualifiedName, Registry, ResolveError, Verdict};
///
/// # let scratch = tempfile::tempdir()?;
/// # let [etc, run] = ["etc", "run"].map(|dir| scratch.path().join(dir));
/// # std::fs::create_dir(&etc)?;
/// # std::fs::create_dir(&run)?;
/// # let spec = r#"{"cdiVersion":"0.3.0","kind":"example.com/lamp",
/// #     "devices":[{"name":"red","containerEdits":{"env":["LAMP=red"]}}]}"#;
/// # std::fs::write(etc.join("lamps.json"), spec)?;
/// # std::fs::write(run.join("lamps.json"), spec)?;
/// # std::fs::write(run.join("broken.json"), "{")?;
/// let registry = Registry::load(&[&etc, &run]); // usually &imex_cdi::DEFAULT_DIRS
///
/// let red: QualifiedName = "example.com/lamp=red".parse()?;
/// let found = registry.resolve(&red)?;
/// assert_eq!(found.file.path, run.join("lamps.json")); // the later directory wins
/// assert_eq!(found.device.container_edits.env, ["LAMP=red"]);
///
/// // An invalid file has an error, and hides no valid one.
/// let bad: Vec<_> = registry.files().iter().filter_map(|file| file.spec.as_ref().err()).collect();
/// assert_eq!(bad[0].code(), "cdi-spec-malformed");
///
/// // Why that file? Every file that defines the device is a candidate, with a verdict.
/// let why = registry.explain(&red);
/// assert!(matches!(why.candidates[0].verdict, Verdict::Shadowed { .. }));
///
/// let green: QualifiedName = "example.com/lamp=green".parse()?;
/// assert!(matches!(registry.resolve(&green), Err(ResolveError::Unknown { .. })));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Registry {
    pub(super) dirs: Vec<SpecDir>,
    /// Ascending by priority, then by name as Go walks a directory.
    pub(super) files: Vec<SpecFile>,
    /// Every device of every valid file, ascending by name; devices of one name are
    /// in the order of their files.
    index: Vec<Entry>,
}

/// The position of a device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// Index in `files`, of a valid one.
    file: usize,
    /// Index in the devices of its spec.
    device: usize,
}

// === impl Registry ===

impl Registry {
    /// Reads the spec files of `dirs`, lowest priority first, usually those of
    /// [`DEFAULT_DIRS`](crate::DEFAULT_DIRS).
    ///
    /// Never fails: [`dirs`](Self::dirs) and [`files`](Self::files) have the errors,
    /// and everything else is loaded.
    ///
    /// # Caveats
    ///
    /// For another root (a host seen from a debug pod) the caller joins the paths and
    /// resolves symbolic links within that root: on many hosts `/var/run` is a link
    /// to `/run`, which the kernel would resolve to the `/run` of the *caller*. The
    /// target of a spec file that is an absolute link is read below the caller's
    /// root.
    // req: CDI-15
    pub fn load<D: AsRef<Path>>(dirs: &[D]) -> Self {
        Self::read(dirs, &mut Budget::unlimited())
    }

    /// Like [`load`](Self::load), with limits, for callers that must finish soon.
    ///
    /// # Errors
    /// The directories have more than `limits`; nothing that was read is returned.
    pub fn load_within<D: AsRef<Path>>(
        dirs: &[D],
        limits: LoadLimits,
    ) -> Result<Self, LimitExceeded> {
        let mut budget = Budget::of(limits);
        let registry = Self::read(dirs, &mut budget);
        if budget.is_exceeded() {
            return Err(LimitExceeded { limits });
        }
        Ok(registry)
    }

    fn read<D: AsRef<Path>>(dirs: &[D], budget: &mut Budget) -> Self {
        let mut registry = Self {
            dirs: Vec::with_capacity(dirs.len()),
            files: Vec::new(),
            index: Vec::new(),
        };
        for (priority, dir) in dirs.iter().enumerate() {
            let (dir, files) = dir::load(dir.as_ref(), priority, budget);
            registry.dirs.push(dir);
            registry.files.extend(files);
        }
        registry.index = registry.sorted_entries();
        registry
    }

    /// The directories, in the order in which they were given.
    pub fn dirs(&self) -> &[SpecDir] {
        &self.dirs
    }

    /// Every file that a runtime would try to read, valid or not, in the same order.
    pub fn files(&self) -> &[SpecFile] {
        &self.files
    }

    /// The devices that resolve, ascending by name.
    pub fn devices(&self) -> impl Iterator<Item = Resolved<'_>> {
        self.groups().filter_map(|group| self.winner(group))
    }

    /// The devices that more than one file of a directory defines, ascending by
    /// name: one conflict for each such directory.
    pub fn conflicts(&self) -> impl Iterator<Item = Conflict<'_>> {
        self.groups().flat_map(|group| self.conflicts_in(group))
    }

    /// Resolves `name` to its device.
    // req: CDI-26
    pub fn resolve(&self, name: &QualifiedName) -> Result<Resolved<'_>, ResolveError> {
        let group = self.group(name);
        if group.is_empty() {
            return Err(ResolveError::Unknown { name: name.clone() });
        }
        self.winner(group).ok_or_else(|| {
            let conflicts = self.conflicts_in(group);
            let files = conflicts.iter().flat_map(|conflict| &conflict.files);
            ResolveError::Conflict {
                name: name.clone(),
                files: files.map(|file| file.path.clone()).collect(),
            }
        })
    }

    fn sorted_entries(&self) -> Vec<Entry> {
        let specs = self.files.iter().enumerate();
        let mut entries: Vec<Entry> = specs
            .filter_map(|(file, read)| Some((file, read.spec.as_ref().ok()?)))
            .flat_map(|(file, spec)| {
                (0..spec.devices().len()).map(move |device| Entry { file, device })
            })
            .collect();
        // Stable: devices of one name keep the order of their files.
        entries.sort_by(|a, b| self.name(*a).cmp(&self.name(*b)));
        entries
    }

    /// The entries grouped by name.
    pub(super) fn groups(&self) -> impl Iterator<Item = &[Entry]> {
        self.index.chunk_by(|a, b| self.name(*a) == self.name(*b))
    }

    pub(super) fn group(&self, name: &QualifiedName) -> &[Entry] {
        let name = (name.kind(), name.device());
        let start = self.index.partition_point(|entry| self.name(*entry) < name);
        let rest = self.index.get(start..).unwrap_or_default();
        let len = rest.partition_point(|entry| self.name(*entry) == name);
        rest.get(..len).unwrap_or_default()
    }

    /// Which of one name's devices it resolves to; `None` if two have the same
    /// priority.
    // req: CDI-14
    pub(super) fn winner(&self, group: &[Entry]) -> Option<Resolved<'_>> {
        let priority = |entry: &Entry| self.resolved(*entry).file.priority;
        let mut pairs = group.iter().zip(group.iter().skip(1));
        if pairs.any(|(a, b)| priority(a) == priority(b)) {
            return None;
        }
        group.last().map(|entry| self.resolved(*entry))
    }

    pub(super) fn conflicts_in(&self, group: &[Entry]) -> Vec<Conflict<'_>> {
        let files: Vec<&SpecFile> = group
            .iter()
            .map(|entry| self.resolved(*entry).file)
            .collect();
        let Some(first) = group.first().map(|entry| self.resolved(*entry)) else {
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

    fn name(&self, entry: Entry) -> (&Kind, &DeviceName) {
        let Resolved { spec, device, .. } = self.resolved(entry);
        (spec.kind(), &device.name)
    }

    #[expect(
        clippy::indexing_slicing,
        clippy::expect_used,
        reason = "every entry refers to a device in a valid spec of these files, and the files never change"
    )]
    pub(super) fn resolved(&self, entry: Entry) -> Resolved<'_> {
        let file = &self.files[entry.file];
        let spec = file.spec.as_ref().expect("an entry's file is valid");
        Resolved {
            file,
            spec,
            device: &spec.devices()[entry.device],
            index: entry.device,
        }
    }
}
