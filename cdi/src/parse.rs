//! Specs from files, as the CDI library in Go reads them: `ParseSpec` in its
//! `pkg/cdi/spec.go`, which is `UnmarshalStrict` of `sigs.k8s.io/yaml` 1.4.0.
//!
//! ```text
//!  plain JSON ─────────────── serde_json ──────────────► RawSpec ── checked ──► Spec
//!      │ if that fails                                      ▲          │ if that fails
//!      ▼                                                    │          ▼
//!  any text ── granit ── events ── Tree (YAML 1.1) ── Reader (Go's rules)   line, column
//! ```
//!
//! Both ways give the same answer for what the first one accepts; the second
//! alone says where a fault stands.

mod reader;
mod scalar;
mod tree;

use crate::spec::{RawSpec, SpecFault};
use crate::{Spec, SpecError};
use reader::Reader;
use tree::Tree;

impl Spec {
    /// Feature `inject`. Reads a spec, in JSON or YAML, as the CDI library in Go 1.1.0 does
    /// whatever the file is called: YAML 1.1 (`0666` is 438, `yes` is true),
    /// the first document only, keys in any case, unknown and repeated keys
    /// refused; a number or a truth value where a text belongs becomes its text.
    ///
    /// Beside its length a text in YAML takes some 130 bytes of memory for each
    /// value; of more than a million values, aliases among them, it is refused.
    /// Plain JSON takes some ten times its length.
    ///
    /// An error is the first; [`parse_all`](Self::parse_all) gives all.
    pub fn parse(text: &[u8]) -> Result<Self, SpecError> {
        Self::parse_all(text).map_err(|faults| {
            let mut faults = faults.into_iter();
            // Never empty, which the type does not say.
            let first = faults.next();
            first.unwrap_or_else(|| SpecError::new(SpecFault::NoDevices))
        })
    }

    /// Feature `inject`. As [`parse`](Self::parse), with every reason to refuse the
    /// spec, at least one and at most some 1 000. A text of another shape has one
    /// reason: what it means is not known.
    pub fn parse_all(text: &[u8]) -> Result<Self, Vec<SpecError>> {
        if is_plain_json(text)
            && let Ok(raw) = serde_json::from_slice::<RawSpec>(text)
            && let Ok(spec) = Self::from(raw).checked()
        {
            return Ok(spec);
        }
        let tree = Tree::read(text).map_err(|error| vec![error])?;
        let raw: RawSpec = Reader::read(&tree).map_err(|error| vec![error])?;
        let spec = Self::from(raw);
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
}

/// Whether JSON and YAML 1.1 cannot differ on `text` if it is JSON: they do on
/// escapes, on line breaks beyond ASCII, on tabs, and on a colon that is not on
/// the line of its key.
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
