//! Durable spec files, one per claim.
//!
//! A claim's file is named as Go's CDI library names a transient spec,
//! `<vendor>-<class>_<uid>.yaml`, so that either driver replaces and removes
//! what the other wrote. It holds JSON, which every YAML reader reads: a
//! block of YAML cut short is often still YAML, a JSON object never.

mod temporary;

use std::collections::BTreeSet;
use std::sync::Arc;

use durable_file::{Dir, Op};

use crate::one_line::OneLine;
use crate::{ClaimDevice, ClaimUid, Class, DeviceName, Kind, QualifiedName, Spec, SpecError};

/// Mode of a spec file. Also runtimes without root rights read specs.
const SPEC_MODE: u32 = 0o644;

/// The spec files of one kind's claims in a CDI directory. Any vendor's
/// kind will do, and any device.
///
/// A claim's file lives as long as the claim is prepared, not as long as a
/// container: runtimes read it each time a container starts.
///
/// # Guarantees
///
/// What a call did is durable when it returns. Each call may be repeated, and
/// may be cut off anywhere by a crash: a claim's file is then the old one or
/// the new one, never a part of one. Files with other names are never touched,
/// but for temporaries that [`sweep`](Self::sweep) knows to be a claim's.
///
/// What a crash leaves of a write is invisible to runtimes:
///
/// | left behind | by | removed |
/// |---|---|---|
/// | `.durable-*.tmp` | this crate | by [`durable_file::OsDir`] when the directory is next opened, unless its writer lives |
/// | `spec.*.tmp` | any user of the CDI library in Go | by `sweep`, if it says that it is of this kind, and for claims that are not live |
/// | `spec.*.tmp`, cut before its first device | anyone | never: nothing says whose it is |
///
/// # Caveats
///
/// Calls exclude nobody. Whoever removes or sweeps must know that no one else
/// asserts the same claims meanwhile, in this process or another.
///
/// A file is a claim's by its name, whatever is in it, so that torn files and
/// those of Go's driver go too. The name has a `-` where the kind has its `/`:
/// kinds like `lamps/ceiling-claim` and `lamps-ceiling/claim` share their
/// files, and must not be used in one directory.
#[derive(Debug)]
pub struct ClaimSpecs {
    dir: Arc<dyn Dir>,
    kind: Kind,
}

/// What [`ClaimSpecs::assert`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asserted {
    /// Whether the file was missing or different, and is now written.
    pub written: bool,
    /// The CDI device ids for kubelet, in the order of the devices.
    pub ids: Vec<QualifiedName>,
}

/// What [`ClaimSpecs::sweep`] did.
#[derive(Debug, Default)]
pub struct Swept {
    /// Names of the files that are gone now.
    pub removed: Vec<String>,
    /// Why others are still there, or may be again after a power loss. They do
    /// no harm beyond their being there.
    pub failed: Vec<ClaimSpecsError>,
}

/// A claim's spec file that could not be brought to the state asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimSpecsError {
    /// No runtime would accept the devices.
    #[error("the devices of claim {claim} make no CDI spec")]
    Devices {
        /// The claim.
        claim: ClaimUid,
        /// What is wrong with them.
        source: SpecError,
    },
    /// The file cannot be read.
    #[error("cannot read CDI spec {file}")]
    Read {
        /// The file's name.
        file: String,
        /// Why.
        source: durable_file::Error,
    },
    /// The file cannot be written.
    #[error("cannot write CDI spec {file}")]
    Write {
        /// The file's name.
        file: String,
        /// Why.
        source: durable_file::Error,
    },
    /// The file cannot be removed.
    #[error("cannot remove {} from the CDI directory", OneLine(file))]
    Remove {
        /// The file's name.
        file: String,
        /// Why.
        source: durable_file::Error,
    },
    /// The directory cannot be listed.
    #[error("cannot list the CDI directory")]
    List {
        /// Why.
        source: durable_file::Error,
    },
    /// That files are gone is not durable.
    #[error("cannot make durable what was removed from the CDI directory")]
    Sync {
        /// Why.
        source: durable_file::Error,
    },
}

// === impl ClaimSpecs ===

impl ClaimSpecs {
    /// The specs of `kind` in `dir`, a directory that the runtimes of the host
    /// read (`/etc/cdi` or `/var/run/cdi` unless they are told otherwise).
    pub fn new(dir: Arc<dyn Dir>, kind: Kind) -> Self {
        Self { dir, kind }
    }

    /// Writes `claim`'s spec file unless it says exactly `devices` already,
    /// and makes it durable in either case. It is not written needlessly
    /// because each write makes every runtime on the host read all specs again.
    ///
    /// For a crash-safe Prepare call it between the records "started" and
    /// "completed", and again for a completed claim, because `/var/run` is
    /// empty after a reboot.
    pub fn assert(
        &self,
        claim: &ClaimUid,
        devices: &[ClaimDevice],
    ) -> Result<Asserted, ClaimSpecsError> {
        let spec = self.spec(claim, devices)?;
        let bytes = spec.to_json();
        let file = claim.spec_file(&self.kind);
        let written = match self.dir.ensure(&file, &bytes, SPEC_MODE) {
            Ok(written) => written,
            Err(source) => return Err(ClaimSpecsError::of_assert(file, source)),
        };
        let ids = devices.iter().map(|device| self.id(claim, &device.name));
        Ok(Asserted {
            written,
            ids: ids.collect(),
        })
    }

    /// Whether `claim` has a spec file: any version of it, torn or written by
    /// another driver too, and not necessarily durable. To know that it is
    /// right, [`assert`](Self::assert) it.
    ///
    /// What has the name and is no regular file is an error, not a `false`.
    pub fn exists(&self, claim: &ClaimUid) -> Result<bool, ClaimSpecsError> {
        let file = claim.spec_file(&self.kind);
        match self.dir.read(&file) {
            Ok(found) => Ok(found.is_some()),
            Err(source) => Err(ClaimSpecsError::Read { file, source }),
        }
    }

    /// Removes `claim`'s spec file. One that is absent is removed.
    pub fn remove(&self, claim: &ClaimUid) -> Result<(), ClaimSpecsError> {
        self.remove_file(claim.spec_file(&self.kind))
    }

    /// Removes the spec files of claims that are not `live`, and what Go's
    /// driver left of writing such. One that cannot be removed does not keep
    /// the others.
    pub fn sweep(&self, live: &BTreeSet<ClaimUid>) -> Result<Swept, ClaimSpecsError> {
        let names = self.dir.list();
        let names = names.map_err(|source| ClaimSpecsError::List { source })?;
        let mut swept = Swept::default();
        for name in names {
            if !self.is_dead(&name, live) {
                continue;
            }
            match self.remove_file(name.clone()) {
                Ok(()) => swept.removed.push(name),
                Err(error) => swept.failed.push(error),
            }
        }
        // Whoever removed the others may have died before that was durable.
        if swept.removed.is_empty()
            && let Err(source) = self.dir.sync()
        {
            swept.failed.push(ClaimSpecsError::Sync { source });
        }
        Ok(swept)
    }

    /// The CDI id of `claim`'s `device`, as [`assert`](Self::assert) returns it.
    pub fn id(&self, claim: &ClaimUid, device: &DeviceName) -> QualifiedName {
        QualifiedName::new(self.kind.clone(), claim.device_name(device))
    }

    /// The spec that [`assert`](Self::assert) writes for `claim`: for its
    /// [`warnings`](Spec::warnings), or to show it. Nothing is read or written.
    ///
    /// It has no edits or annotations but its devices' edits.
    pub fn spec(&self, claim: &ClaimUid, devices: &[ClaimDevice]) -> Result<Spec, ClaimSpecsError> {
        let devices = devices.iter().map(|device| device.for_claim(claim));
        Spec::new(self.kind.clone(), devices.collect()).map_err(|source| ClaimSpecsError::Devices {
            claim: claim.clone(),
            source,
        })
    }

    fn remove_file(&self, file: String) -> Result<(), ClaimSpecsError> {
        let removed = self.dir.remove(&file);
        removed.map_err(|source| ClaimSpecsError::Remove { file, source })
    }

    /// Whether `name` is known to be a file of claims that are not `live`.
    fn is_dead(&self, name: &str, live: &BTreeSet<ClaimUid>) -> bool {
        if temporary::has_its_name(name) {
            // One that cannot be read is not known to be ours.
            let text = self.dir.read(name).ok().flatten();
            return text.is_some_and(|text| temporary::is_of_dead_claims(&text, &self.kind, live));
        }
        let claim = ClaimUid::of_spec_file(&self.kind, name);
        claim.is_some_and(|claim| !live.contains(&claim))
    }
}

// === impl ClaimSpecsError ===

impl ClaimSpecsError {
    /// An assert looks at the file before it writes it.
    fn of_assert(file: String, source: durable_file::Error) -> Self {
        match source {
            durable_file::Error::NotAFile { .. } | durable_file::Error::Io { op: Op::Read, .. } => {
                Self::Read { file, source }
            }
            _ => Self::Write { file, source },
        }
    }

    /// A stable word for events and metrics.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Devices { source, .. } => source.code(),
            Self::Read { .. } => "cdi-spec-unreadable",
            Self::Write { .. } => "cdi-spec-unwritable",
            Self::Remove { .. } => "cdi-spec-unremovable",
            Self::List { .. } => "cdi-directory-unreadable",
            Self::Sync { .. } => "cdi-directory-unsyncable",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Devices { source, .. } => source.hint(),
            Self::Read { source, .. }
            | Self::Write { source, .. }
            | Self::Remove { source, .. }
            | Self::List { source }
            | Self::Sync { source } => source.hint(),
        }
    }

    /// Whether repeating the call can help.
    pub fn class(&self) -> Class {
        match self {
            Self::Devices { .. } => Class::Permanent,
            Self::Read { source, .. }
            | Self::Write { source, .. }
            | Self::Remove { source, .. }
            | Self::List { source }
            | Self::Sync { source } => source.class(),
        }
    }
}
