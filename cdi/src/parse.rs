//! Parsing a spec as Go's CDI library does: `ParseSpec` in its `pkg/cdi/spec.go`,
//! which is `UnmarshalStrict` of `sigs.k8s.io/yaml` 1.4.0.
//!
//! ```text
//!  plain JSON ─────────────── serde_json ──────────────► RawSpec ── checked ──► Spec
//!      │ if that fails                                      ▲          │ if that fails
//!      ▼                                                    │          ▼
//!  any text ── granit ── events ── Tree (YAML 1.1) ── reader (Go's rules)   line, column
//! ```
//!
//! Both ways give the same result for what the first one accepts; only the second
//! knows the position of a fault.

mod access;
mod cursor;
mod error;
mod reader;
mod scalar;
mod text;
mod tree;
mod two_ways;
mod yaml;

pub(crate) use two_ways::TwoWays;

use self::tree::Tree;
use crate::spec::{RawSpec, SpecFault};
use crate::{Spec, SpecError};

/// A text that was read.
pub(crate) struct Reading {
    /// The spec, or at least one fault.
    pub(crate) spec: Result<Spec, Vec<SpecError>>,
    /// Why CDI's library in Go, in another of its versions, may hold something else.
    pub(crate) two_ways: Option<TwoWays>,
}

impl Spec {
    /// Feature `inject`. Parses a spec in JSON or YAML as Go's CDI library 1.1.0 does,
    /// whatever the name of the file: YAML 1.1 (`0666` is 438, `yes` is true), the
    /// first document only, case-insensitive keys, unknown and repeated keys are
    /// errors, a number or boolean in place of a string becomes a string.
    ///
    /// YAML takes about 130 bytes of memory for each value, and more than a million
    /// values (keys and aliases included) are refused. Plain JSON takes about ten
    /// times its length.
    ///
    /// # Errors
    ///
    /// The first reason to refuse the spec; [`parse_all`](Self::parse_all) returns
    /// all of them.
    // req: CDI-16, CDI-18
    pub fn parse(text: &[u8]) -> Result<Self, SpecError> {
        Self::parse_all(text).map_err(first)
    }

    /// Feature `inject`. Like [`parse`](Self::parse).
    ///
    /// # Errors
    ///
    /// Every reason to refuse the spec: at least one, at most about 1 000. A text
    /// that does not fit the model has exactly one.
    pub fn parse_all(text: &[u8]) -> Result<Self, Vec<SpecError>> {
        read(text).spec
    }
}

/// Reads a text, as [`Spec::parse_all`], and says what other readers may make of it.
pub(crate) fn read(text: &[u8]) -> Reading {
    if is_plain_json(text)
        && let Ok(raw) = serde_json::from_slice::<RawSpec>(text)
        && let Ok(spec) = Spec::from(raw).checked()
    {
        return Reading {
            spec: Ok(spec),
            two_ways: None,
        };
    }
    let of_text = TwoWays::of_text(text);
    match yaml::read(text) {
        Err(error) => Reading {
            spec: Err(vec![error]),
            two_ways: of_text,
        },
        Ok(tree) => Reading {
            spec: of_tree(&tree),
            two_ways: of_text.or_else(|| TwoWays::of_tree(&tree)),
        },
    }
}

fn of_tree(tree: &Tree<'_>) -> Result<Spec, Vec<SpecError>> {
    let raw: RawSpec = reader::read(tree).map_err(|error| vec![error])?;
    let spec = Spec::from(raw);
    let faults = spec.faults();
    if faults.is_empty() {
        return Ok(spec);
    }
    let located = faults.into_iter().map(|fault| {
        let position = fault.field().map(|field| tree.locate(field));
        fault.at(position)
    });
    Err(located.collect())
}

/// The first of some faults.
pub(crate) fn first(faults: Vec<SpecError>) -> SpecError {
    // There is always one, which the type does not guarantee.
    let first = faults.into_iter().next();
    first.unwrap_or_else(|| SpecError::new(SpecFault::NoDevices))
}

/// Whether `text`, if it is JSON, means the same in YAML 1.1. They differ in
/// escapes, in line breaks beyond ASCII, in tabs, and if a colon is not on the line
/// of its key.
fn is_plain_json(text: &[u8]) -> bool {
    let mut line_is_blank = false;
    text.first() == Some(&b'{')
        && text.iter().all(|byte| {
            let plain = match byte {
                b'\\' => false,
                b':' => !line_is_blank,
                byte => matches!(byte, b' '..=b'~' | b'\n' | b'\r'),
            };
            line_is_blank = match byte {
                b'\n' | b'\r' => true,
                byte => line_is_blank && *byte == b' ',
            };
            plain
        })
}
