//! The receiver of warnings.

use super::warning::Lint;
use crate::spec::Field;

/// Takes the warnings of one spec, in the order in which they are added.
pub(super) struct Warnings<'a> {
    found: &'a mut dyn FnMut(Field, Lint),
}

impl<'a> Warnings<'a> {
    pub(super) fn new(found: &'a mut dyn FnMut(Field, Lint)) -> Self {
        Self { found }
    }

    pub(super) fn add(&mut self, field: Field, lint: Lint) {
        (self.found)(field, lint);
    }
}
