//! Durable spec files, one per claim.
//!
//! A claim's file is named as Go's CDI library names a transient spec,
//! `<vendor>-<class>_<uid>.yaml`, so that this driver and Go's replace and remove
//! each other's files. It holds JSON, which every YAML reader accepts: truncated
//! YAML is often still valid YAML, a truncated JSON object never is.

mod temporary;

use std::collections::BTreeSet;
use std::sync::Arc;

use dra_common::{Advice, OneLine};
use durable_file::{Dir, Op};

use crate::{ClaimSpec, ClaimUid, DeviceName, Kind, QualifiedName, Spec, SpecError};

/// Mode of a spec file: rootless runtimes read specs too.
const SPEC_MODE: u32 = 0o644;

/// The spec files of one kind's claims in a CDI directory. Works for any vendor's
/// kind and any devices.
///
/// A claim's file must exist for as long as the claim is prepared, not just while
/// a container starts: runtimes read it at every start of a container.
///
/// # Guarantees
///
/// The effect of a call is durable when the call returns. Every call is
/// idempotent, and a crash at any point leaves the old file or the new one, never
/// a part of one. Files with other names are never touched, except for temporary
/// files that [`sweep`](Self::sweep) recognizes as a claim's.
///
/// # A claim's file
///
/// `<vendor>-<class>_<uid>.yaml`, as Go's CDI library names a transient spec, with mode 0644
/// and JSON on one line: truncated YAML is often a valid spec with another meaning, truncated
/// JSON never is. A file with the same bytes and another mode is written again.
///
/// It declares the lowest CDI version that it needs, because a runtime rejects a version that
/// it does not know: for IMEX channels 0.3.0, or 0.5.0 if the UID begins with a digit.
/// [`channel_node`](crate::channel_node) describes a channel's device node.
///
/// # Temporary files
///
/// Temporary files that a crash leaves behind are ignored by runtimes:
///
/// | temporary file | written by | removed |
/// |---|---|---|
/// | `.durable-*.tmp` | this crate | by [`durable_file::OsDir`] when the directory is next opened, unless the writer is still running |
/// | `spec.*.tmp` | any user of Go's CDI library | by `sweep`, if it has this kind and only devices of claims that are not prepared |
/// | `spec.*.tmp`, truncated before its first device | any user of Go's CDI library | never: its owner is unknown |
///
/// # Caveats
///
/// Every method but [`id`](Self::id) and [`spec`](Self::spec) blocks on the disk.
///
/// There is no locking. Callers of `remove` and `sweep` must make sure that no other thread or
/// process ensures the same claims meanwhile.
///
/// A file belongs to a claim by its name, whatever its content, so that truncated
/// files and those of Go's driver are removed too. The name has a `-` where the
/// kind has its `/`: kinds like `lamps/ceiling-claim` and `lamps-ceiling/claim`
/// share their files, and must not be used in one directory.
#[derive(Debug)]
pub struct ClaimSpecs {
    dir: Arc<dyn Dir>,
    kind: Kind,
}

/// What [`ClaimSpecs::ensure`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ensured {
    /// Whether the file was written, because it was missing or different.
    pub written: bool,
    /// The CDI device ids for kubelet, in the order of the devices.
    pub ids: Vec<QualifiedName>,
}

/// What [`ClaimSpecs::sweep`] did.
#[derive(Debug, Default)]
pub struct Swept {
    /// Names of the removed files.
    pub removed: Vec<String>,
    /// Why other files still exist, or may exist again after a power loss. They are
    /// harmless: no container requests their devices.
    pub failed: Vec<ClaimSpecsError>,
}

/// Why a claim's spec file could not be written, read or removed.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
#[advice(hint = source.hint(), class = source.class())]
pub enum ClaimSpecsError {
    /// No runtime would accept the spec.
    #[error("the devices and edits of claim {claim} do not form a valid CDI spec")]
    #[advice(code = source.code(), permanent)]
    Invalid {
        /// The claim.
        claim: ClaimUid,
        /// What is wrong with them.
        source: SpecError,
    },
    /// The file cannot be read.
    #[error("cannot read CDI spec {file}")]
    #[advice(code = "cdi-spec-unreadable")]
    Read {
        /// The file's name.
        file: String,
        /// Why.
        source: durable_file::Error,
    },
    /// The file cannot be written.
    #[error("cannot write CDI spec {file}")]
    #[advice(code = "cdi-spec-unwritable")]
    Write {
        /// The file's name.
        file: String,
        /// Why.
        source: durable_file::Error,
    },
    /// The file cannot be removed.
    #[error("cannot remove {} from the CDI directory", OneLine(file))]
    #[advice(code = "cdi-spec-unremovable")]
    Remove {
        /// The file's name.
        file: String,
        /// Why.
        source: durable_file::Error,
    },
    /// The directory cannot be listed.
    #[error("cannot list the CDI directory")]
    #[advice(code = "cdi-directory-unreadable")]
    List {
        /// Why.
        source: durable_file::Error,
    },
    /// The removal of files may be undone by a power loss.
    #[error("cannot sync removals in the CDI directory to disk")]
    #[advice(code = "cdi-directory-unsyncable")]
    Sync {
        /// Why.
        source: durable_file::Error,
    },
}

// === impl ClaimSpecs ===

impl ClaimSpecs {
    /// The specs of `kind` in `dir`, a directory that the runtimes of the host
    /// read (`/etc/cdi` or `/var/run/cdi` unless they are configured otherwise).
    pub fn new(dir: Arc<dyn Dir>, kind: Kind) -> Self {
        Self { dir, kind }
    }

    /// Writes `claim`'s spec file unless it already has exactly this content, and makes it durable
    /// in either case. A needless write is avoided because after every write the runtimes of the
    /// host re-read all specs.
    ///
    /// A crash-safe Prepare calls this between its records "started" and
    /// "completed", and again whenever a completed claim is prepared: `/var/run`
    /// is empty after a reboot.
    // req: CDI-4, CDI-6, CDI-7
    pub fn ensure(&self, claim: &ClaimUid, spec: &ClaimSpec) -> Result<Ensured, ClaimSpecsError> {
        let bytes = self.spec(claim, spec)?.to_json();
        let file = claim.spec_file_name(&self.kind);
        let written = match self.dir.ensure(&file, &bytes, SPEC_MODE) {
            Ok(written) => written,
            Err(source) => return Err(ClaimSpecsError::from_ensure(file, source)),
        };
        let devices = spec.devices.iter();
        let ids = devices.map(|device| self.id(claim, &device.name));
        Ok(Ensured {
            written,
            ids: ids.collect(),
        })
    }

    /// Whether `claim` has a spec file, whatever its content and whether or not it
    /// is durable. To have the right one, call [`ensure`](Self::ensure).
    ///
    /// A directory or device of that name is an error, not `false`.
    pub fn exists(&self, claim: &ClaimUid) -> Result<bool, ClaimSpecsError> {
        let file = claim.spec_file_name(&self.kind);
        match self.dir.read(&file) {
            Ok(found) => Ok(found.is_some()),
            Err(source) => Err(ClaimSpecsError::Read { file, source }),
        }
    }

    /// The claims that have a spec file here, whatever its content.
    pub fn claims(&self) -> Result<BTreeSet<ClaimUid>, ClaimSpecsError> {
        let names = self.dir.list();
        let names = names.map_err(|source| ClaimSpecsError::List { source })?;
        let claim = |name: &String| ClaimUid::from_spec_file_name(&self.kind, name);
        Ok(names.iter().filter_map(claim).collect())
    }

    /// The names of the devices in `claim`'s spec file, as [`ClaimDevice`](crate::ClaimDevice) has them.
    /// They are searched in the text, so truncated files and the YAML of Go's library work, too.
    /// Empty if there is no file, or none is found.
    pub fn devices(&self, claim: &ClaimUid) -> Result<BTreeSet<DeviceName>, ClaimSpecsError> {
        let file = claim.spec_file_name(&self.kind);
        match self.dir.read(&file) {
            Ok(found) => {
                let found = found.unwrap_or_default();
                Ok(claim.devices_in(&String::from_utf8_lossy(&found)))
            }
            Err(source) => Err(ClaimSpecsError::Read { file, source }),
        }
    }

    /// Removes `claim`'s spec file. It is no error if there is none.
    pub fn remove(&self, claim: &ClaimUid) -> Result<(), ClaimSpecsError> {
        self.remove_file(claim.spec_file_name(&self.kind))
    }

    /// Removes the spec files of claims that are not `prepared`, and the temporary
    /// files that Go's driver left of them. One file that cannot be removed does not stop the
    /// removal of the others.
    ///
    /// Before the call, ask the API server or detect a reboot: `prepared` from local records alone
    /// may be incomplete. Without its file, a prepared claim's containers cannot restart.
    // req: CDI-9
    pub fn sweep(&self, prepared: &BTreeSet<ClaimUid>) -> Result<Swept, ClaimSpecsError> {
        let names = self.dir.list();
        let names = names.map_err(|source| ClaimSpecsError::List { source })?;
        let mut swept = Swept::default();
        for name in names {
            if !self.is_stale(&name, prepared) {
                continue;
            }
            match self.remove_file(name.clone()) {
                Ok(()) => swept.removed.push(name),
                Err(error) => swept.failed.push(error),
            }
        }
        // An earlier remove may have crashed before its own sync.
        if swept.removed.is_empty()
            && let Err(source) = self.dir.sync()
        {
            swept.failed.push(ClaimSpecsError::Sync { source });
        }
        Ok(swept)
    }

    /// The CDI id of `claim`'s `device`, as [`ensure`](Self::ensure) returns it.
    pub fn id(&self, claim: &ClaimUid, device: &DeviceName) -> QualifiedName {
        QualifiedName::new(self.kind.clone(), claim.device_name(device))
    }

    /// Builds the spec that [`ensure`](Self::ensure) would write for `claim`, to inspect
    /// its [`warnings`](Spec::warnings) or to show it. Nothing is read or written. To inspect
    /// files, call [`exists`](Self::exists), [`devices`](Self::devices) or
    /// [`claims`](Self::claims).
    ///
    /// The spec has no annotations.
    pub fn spec(&self, claim: &ClaimUid, spec: &ClaimSpec) -> Result<Spec, ClaimSpecsError> {
        let devices = spec.devices.iter().map(|device| device.for_claim(claim));
        Spec::new(self.kind.clone(), devices.collect())
            .and_then(|it| it.with_container_edits(spec.common.clone()))
            .map_err(|source| ClaimSpecsError::Invalid {
                claim: claim.clone(),
                source,
            })
    }

    // req: CDI-11
    fn remove_file(&self, file: String) -> Result<(), ClaimSpecsError> {
        let removed = self.dir.remove(&file);
        removed.map_err(|source| ClaimSpecsError::Remove { file, source })
    }

    /// Whether `name` is known to be a file of claims that are not `prepared`.
    fn is_stale(&self, name: &str, prepared: &BTreeSet<ClaimUid>) -> bool {
        if temporary::is_temporary(name) {
            // An unreadable file is not known to be this driver's.
            let text = self.dir.read(name).ok().flatten();
            return text.is_some_and(|text| temporary::is_stale(&text, &self.kind, prepared));
        }
        let claim = ClaimUid::from_spec_file_name(&self.kind, name);
        claim.is_some_and(|claim| !prepared.contains(&claim))
    }
}

// === impl ClaimSpecsError ===

impl ClaimSpecsError {
    /// `Dir::ensure` reads the file before it writes it.
    fn from_ensure(file: String, source: durable_file::Error) -> Self {
        match source {
            durable_file::Error::NotAFile { .. } | durable_file::Error::Io { op: Op::Read, .. } => {
                Self::Read { file, source }
            }
            _ => Self::Write { file, source },
        }
    }
}
