//! Parsing a spec that every version of Go's CDI library reads the same way.
//!
//! Plain JSON goes to `serde_json`. Everything else, and JSON with a fault, is read into a YAML
//! tree, which has positions.
//!
//! The library's versions have different YAML parsers. Text that they may read differently, and
//! that no generator of specs writes, is refused.

mod error;
mod reader;
mod scalar;
mod yaml;

use serde::Deserialize;

use crate::spec::{RawSpec, SpecFault};
use crate::{Spec, SpecError};

impl Spec {
    /// Feature `inject`. Parses a spec in JSON or YAML, whatever the name of the file, as
    /// Go's CDI library does: the first document of YAML, where `0666` is 438 and `yes` is
    /// true; a decimal number in place of a string is its text. Unknown and repeated keys
    /// are errors.
    ///
    /// Versions of the library read some YAML differently. That is refused, and so is YAML that
    /// no generator of specs writes:
    ///
    /// | refused | instead |
    /// |---|---|
    /// | anchors, aliases, merge keys (`<<`), tags, keys that are lists or mappings | write the values out |
    /// | where a string belongs, an unquoted number or boolean that readers may spell differently: `yes`, `0x10`, `010`, `1e3`, `1.0` | put it in quotes |
    /// | `1_000`, `0b11`, `+1`, `08` or `2.0` where a number belongs | decimal, octal or `0x1f` |
    /// | keys in other letters (`Path`) | `path` |
    /// | U+0085, U+2028, U+2029 and U+FEFF, except as escapes; UTF-16 | escapes; UTF-8 |
    /// | a `}` or `]` after the end, a `#` right after a text or bracket | |
    /// | more than 1 000 000 values or 24 levels of nesting | split the spec |
    ///
    /// Go reads what is accepted here the same way, with one exception: `{a:}` has the key `a:`
    /// in Go. It refuses a tab before an entry, a `%DIRECTIVE` and the escape `\/`, which YAML
    /// 1.2 allows.
    ///
    /// YAML takes up to 90 bytes of memory for each value (a key, string, number or list).
    /// Plain JSON takes about ten times its length. The length of `text` is not limited: that is up
    /// to the caller.
    ///
    /// # Errors
    ///
    /// The first reason to refuse the spec; [`parse_all`](Self::parse_all) returns
    /// all of them.
    // req: CDI-16, CDI-18
    pub fn parse(text: &[u8]) -> Result<Self, SpecError> {
        Self::parse_all(text).map_err(|faults| {
            // There is always one, which the type does not guarantee.
            let first = faults.into_iter().next();
            first.unwrap_or_else(|| SpecError::new(SpecFault::NoDevices))
        })
    }

    /// Feature `inject`. Like [`parse`](Self::parse).
    ///
    /// # Errors
    ///
    /// Every reason to refuse the spec: at least one, at most about 1 000. A text
    /// that does not fit the model has exactly one.
    pub fn parse_all(text: &[u8]) -> Result<Self, Vec<SpecError>> {
        if is_plain_json(text)
            && let Ok(raw) = serde_json::from_slice::<RawSpec>(text)
            && let Ok(spec) = Self::from(raw).checked()
        {
            return Ok(spec);
        }
        let root = yaml::read(text).map_err(|error| vec![error])?;
        let raw: Result<RawSpec, _> = Deserialize::deserialize(&root);
        let raw = raw.map_err(|error| vec![error.within(root.position, "").0])?;
        let spec = Self::from(raw);
        let faults = spec.faults();
        if faults.is_empty() {
            return Ok(spec);
        }
        let located = faults.into_iter().map(|fault| {
            let position = fault.field().map(|field| root.locate(field));
            fault.at(position)
        });
        Err(located.collect())
    }
}

/// Whether `text`, if it is JSON, means the same in YAML 1.1. They differ in escapes and tabs,
/// and beyond ASCII.
fn is_plain_json(text: &[u8]) -> bool {
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n' | b'\r') && *byte != b'\\';
    text.first() == Some(&b'{') && text.iter().all(is_plain)
}
