//! Names that are written when they are printed: a host can have 100 000s of devices.

use std::fmt;

use imex_cdi::{DeviceName, Kind, SpecFile};
use serde::{Serialize, Serializer};

/// `vendor/class=device`
#[derive(Debug, Clone, Copy)]
pub(super) struct FullName<'a> {
    kind: &'a Kind,
    device: &'a DeviceName,
}

/// The path of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct FilePath<'a>(&'a SpecFile);

// === impl FullName ===

impl<'a> FullName<'a> {
    pub(super) fn new(kind: &'a Kind, device: &'a DeviceName) -> Self {
        Self { kind, device }
    }
}

impl fmt::Display for FullName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, device } = self;
        write!(f, "{kind}={device}")
    }
}

impl Serialize for FullName<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

// === impl FilePath ===

impl<'a> FilePath<'a> {
    pub(super) fn new(file: &'a SpecFile) -> Self {
        Self(file)
    }
}

impl Serialize for FilePath<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(file) = self;
        serializer.serialize_str(&file.path.to_string_lossy())
    }
}
