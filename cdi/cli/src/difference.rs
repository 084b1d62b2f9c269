//! Two CDI specs, or two OCI configs, compared by what they mean.
//!
//! ```text
//! Spec or config ──► canonical JSON, without order where none counts ──► differences
//! ```

mod canonical;
mod compare;
mod mounts;
mod text;

use imex_cdi::Spec;
use serde_json::Value;

pub(crate) use self::compare::Difference;
pub(crate) use self::text::write;

pub(crate) fn between_specs(old: &Spec, new: &Spec) -> Vec<Difference> {
    compare::differences(&canonical::spec(old), &canonical::spec(new))
}

pub(crate) fn between_configs(old: &Value, new: &Value) -> Vec<Difference> {
    compare::differences(&canonical::config(old), &canonical::config(new))
}
