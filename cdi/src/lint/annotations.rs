//! Annotations that some readers refuse, though Go's CDI library accepts them.

use std::collections::BTreeMap;

use super::found::Warnings;
use super::warning::Lint;
use crate::spec::Field;

/// The total length of keys and values that Kubernetes allows.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

impl Warnings<'_> {
    pub(super) fn annotations(&mut self, field: Field, annotations: &BTreeMap<String, String>) {
        if annotations.keys().any(|key| !is_qualified_name(key)) {
            self.add(field, Lint::AnnotationKey);
        }
        let lengths = annotations
            .iter()
            .map(|(key, value)| key.len() + value.len());
        if lengths.sum::<usize>() > ANNOTATIONS_LIMIT {
            self.add(field, Lint::AnnotationsTooLong);
        }
    }
}

/// Whether `key` is a key as Kubernetes defines it, in any case: `[prefix/]name`,
/// the prefix a DNS name of at most 253 bytes, the name at most 63 letters,
/// digits, `-`, `_` and `.`, starting and ending with a letter or digit.
fn is_qualified_name(key: &str) -> bool {
    let ends = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    let of = |text: &str, more: &[char]| {
        text.chars()
            .all(|c| c.is_ascii_alphanumeric() || more.contains(&c))
    };
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let label = |label: &str| ends(label) && of(label, &['-']);
    prefix.is_none_or(|prefix| prefix.len() <= 253 && prefix.split('.').all(label))
        && name.len() <= 63
        && ends(name)
        && of(name, &['-', '_', '.'])
}
