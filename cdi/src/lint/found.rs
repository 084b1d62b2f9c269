//! The warnings found so far.

use super::warning::{Lint, Warning};
use crate::spec::Field;

/// The warnings of one spec, in the order in which they are added.
#[derive(Default)]
pub(super) struct Warnings {
    pub(super) found: Vec<Warning>,
}

impl Warnings {
    pub(super) fn add(&mut self, field: Field, lint: Lint) {
        let field = field.to_string();
        self.found.push(Warning { field, lint });
    }
}
