//! A spec's version, as reports have it.

use std::fmt;

use imex_cdi::Spec;
use serde::Serialize;

/// The version that a spec declares, and the lowest that its fields need.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VersionReport {
    declared: &'static str,
    needed: &'static str,
}

// === impl VersionReport ===

impl VersionReport {
    pub(crate) fn new(spec: &Spec) -> Self {
        Self {
            declared: spec.version().as_str(),
            needed: spec.needed_version().as_str(),
        }
    }
}

impl fmt::Display for VersionReport {
    /// One number if both are the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { declared, needed } = self;
        f.write_str(declared)?;
        if declared != needed {
            write!(f, " (needs {needed})")?;
        }
        Ok(())
    }
}
