//! JSON as Go's `encoding/json` writes it with HTML escaping on.
//!
//! `serde_json` already agrees on integers, separators, control characters and
//! DEL; what differs is five characters inside strings, the notation of floats,
//! and that Go compacts raw JSON on its way out.

use std::fmt::{Display, LowerExp};
use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Encodes `value`; fails only if its `Serialize` does.
pub(crate) fn to_string<T: Serialize + ?Sized>(value: &T) -> Result<String, serde_json::Error> {
    let mut out = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut out, GoFormatter))?;
    String::from_utf8(out).map_err(serde::ser::Error::custom)
}

/// Raw JSON as Go re-emits it: insignificant white space dropped, five
/// characters inside strings escaped, all else (key order, duplicate keys,
/// number spellings, other escapes) untouched. `text` must be valid JSON.
pub(crate) fn compact(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    // Writing to a Vec cannot fail, and pieces of UTF-8 at char boundaries
    // stay UTF-8.
    match write_compact(&mut out, text) {
        Ok(()) => String::from_utf8(out).unwrap_or_default(),
        Err(_) => String::new(),
    }
}

struct GoFormatter;

impl Formatter for GoFormatter {
    fn write_f32<W: io::Write + ?Sized>(&mut self, writer: &mut W, value: f32) -> io::Result<()> {
        let size = value.abs();
        write_float(writer, value, size == 0.0 || (1e-6..1e21).contains(&size))
    }

    fn write_f64<W: io::Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        let size = value.abs();
        write_float(writer, value, size == 0.0 || (1e-6..1e21).contains(&size))
    }

    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut pieces = Pieces::new(fragment);
        for (at, c) in fragment.char_indices() {
            if let Some(escape) = html_escape(c) {
                pieces.replace(writer, at, c, escape)?;
            }
        }
        pieces.finish(writer)
    }

    fn write_raw_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        write_compact(writer, fragment)
    }
}

/// The shortest digits that are read as the same number, as Go and Rust agree;
/// without an exponent, or with one that has its sign.
fn write_float<W: io::Write + ?Sized>(
    writer: &mut W,
    value: impl Display + LowerExp,
    is_plain: bool,
) -> io::Result<()> {
    if is_plain {
        return write!(writer, "{value}");
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => {
            write!(writer, "{digits}e+{exponent}")
        }
        _ => writer.write_all(text.as_bytes()),
    }
}

fn write_compact<W: io::Write + ?Sized>(writer: &mut W, text: &str) -> io::Result<()> {
    let mut pieces = Pieces::new(text);
    let mut in_string = false;
    let mut after_backslash = false;
    for (at, c) in text.char_indices() {
        if in_string {
            if let Some(escape) = html_escape(c) {
                pieces.replace(writer, at, c, escape)?;
            }
            in_string = after_backslash || c != '"';
            after_backslash = c == '\\' && !after_backslash;
        } else if c.is_ascii_whitespace() {
            pieces.replace(writer, at, c, "")?;
        } else {
            in_string = c == '"';
        }
    }
    pieces.finish(writer)
}

fn html_escape(c: char) -> Option<&'static str> {
    match c {
        '<' => Some("\\u003c"),
        '>' => Some("\\u003e"),
        '&' => Some("\\u0026"),
        '\u{2028}' => Some("\\u2028"),
        '\u{2029}' => Some("\\u2029"),
        _ => None,
    }
}

/// Copies a text in the longest runs between replaced characters.
struct Pieces<'a> {
    text: &'a str,
    copied: usize,
}

impl<'a> Pieces<'a> {
    fn new(text: &'a str) -> Self {
        Self { text, copied: 0 }
    }

    fn replace<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        at: usize,
        c: char,
        by: &str,
    ) -> io::Result<()> {
        writer.write_all(
            self.text
                .get(self.copied..at)
                .unwrap_or_default()
                .as_bytes(),
        )?;
        writer.write_all(by.as_bytes())?;
        self.copied = at + c.len_utf8();
        Ok(())
    }

    fn finish<W: io::Write + ?Sized>(self, writer: &mut W) -> io::Result<()> {
        writer.write_all(self.text.get(self.copied..).unwrap_or_default().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::value::RawValue;

    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits = hex.as_bytes().chunks(2);
        digits
            .map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap())
            .collect()
    }

    #[test]
    fn strings_are_escaped_as_go_escapes_them() {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Vector {
            in_utf8_hex: String,
            out_json_hex: String,
        }
        let text = include_str!("../tests/fixtures/go-json-string-vectors.json");
        let vectors: Vec<Vector> = serde_json::from_str(text).unwrap();
        assert!(vectors.len() > 0xa0);
        for vector in vectors {
            // A Rust string cannot hold what Go replaces by U+FFFD.
            let given = String::from_utf8(bytes(&vector.in_utf8_hex)).unwrap();
            assert_eq!(
                to_string(&given).unwrap().as_bytes(),
                bytes(&vector.out_json_hex)
            );
        }
    }

    #[test]
    fn floats_are_written_as_go_writes_them() {
        #[derive(Deserialize)]
        struct Vector {
            bits: String,
            json: String,
        }
        #[derive(Deserialize)]
        struct Vectors {
            f64: Vec<Vector>,
            f32: Vec<Vector>,
        }
        let text = include_str!("../tests/fixtures/go-float-vectors.json");
        let vectors: Vectors = serde_json::from_str(text).unwrap();
        assert!(vectors.f64.len() >= 200 && vectors.f32.len() >= 80);
        for Vector { bits, json } in vectors.f64 {
            let value = f64::from_bits(u64::from_str_radix(&bits, 16).unwrap());
            assert_eq!(to_string(&value).unwrap(), json, "{bits}");
        }
        for Vector { bits, json } in vectors.f32 {
            let value = f32::from_bits(u32::from_str_radix(&bits, 16).unwrap());
            assert_eq!(to_string(&value).unwrap(), json, "{bits}");
        }
    }

    #[test]
    fn map_keys_are_escaped_too() {
        let map = std::collections::BTreeMap::from([("<k>", 1)]);
        assert_eq!(to_string(&map).unwrap(), r#"{"\u003ck\u003e":1}"#);
    }

    #[test]
    fn raw_json_is_compacted_as_go_compacts_it() {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Vector {
            raw_in: String,
            raw_out: String,
        }
        let text = include_str!("../tests/fixtures/go-rawextension-vectors.json");
        let vectors: Vec<Vector> = serde_json::from_str(text).unwrap();
        assert!(!vectors.is_empty());
        for vector in vectors {
            assert_eq!(compact(&vector.raw_in), vector.raw_out);
            assert_eq!(
                compact(&vector.raw_out),
                vector.raw_out,
                "once more changes nothing"
            );
            let raw = RawValue::from_string(vector.raw_in).unwrap();
            assert_eq!(to_string(&raw).unwrap(), vector.raw_out);
        }
    }

    #[test]
    fn a_quote_after_an_escaped_backslash_ends_the_string() {
        assert_eq!(
            compact(r#"{"a\\" : "\\\" <" , "b" : 1}"#),
            r#"{"a\\":"\\\" \u003c","b":1}"#
        );
    }
}
