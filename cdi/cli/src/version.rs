//! A spec's version, as reports have it.

use std::fmt;

use imex_cdi::{Spec, SpecVersion};
use serde::Serialize;

/// The version that a spec declares, and the lowest that its fields need.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VersionReport {
    declared: SpecVersion,
    needed: SpecVersion,
}

// === impl VersionReport ===

impl VersionReport {
    pub(crate) fn new(spec: &Spec) -> Self {
        Self {
            declared: spec.version(),
            needed: spec.needed_version(),
        }
    }
}

impl fmt::Display for VersionReport {
    /// One number if both are the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { declared, needed } = self;
        f.write_str(declared.as_str())?;
        if declared != needed {
            write!(f, " (needs {needed})")?;
        }
        Ok(())
    }
}
