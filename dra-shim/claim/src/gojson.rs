//! JSON as Go's `encoding/json` writes it with HTML escaping on.
//!
//! `serde_json` already agrees on integers, separators, control characters and DEL.
//! Go differs in three ways: it escapes five more characters in strings, writes
//! floats in another notation, and compacts raw JSON.

use std::fmt::{Display, LowerExp};
use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Encodes `value`; fails only if its `Serialize` does.
pub fn to_string<T: Serialize + ?Sized>(value: &T) -> Result<String, serde_json::Error> {
    let mut out = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut out, GoFormatter))?;
    String::from_utf8(out).map_err(serde::ser::Error::custom)
}

/// Compacts raw JSON like Go: drops insignificant whitespace and escapes five
/// characters in strings. Key order, duplicate keys, number spellings and other
/// escapes stay. `text` must be valid JSON.
pub fn compact(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    // Writing to a Vec cannot fail, and UTF-8 split at char boundaries stays UTF-8.
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

/// Writes the shortest digits that are read as the same number, on which Go and Rust
/// agree. An exponent always has a sign.
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

/// Copies a text in the longest possible runs between replaced characters.
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
mod tests;
