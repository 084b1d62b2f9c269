//! The first document of a YAML text, as a tree.

use std::borrow::Cow;

use granit_parser::{
    ErrorKind, Event, Marker, Options, Parser, ScalarStyle, ScanError, Span, StrInput,
};

use crate::SpecError;
use crate::spec::SpecFault;

/// Three times the depth of any field of a spec.
const DEPTH_LIMIT: usize = 24;

/// The most values (including keys) of a document. 2 048 channels in YAML have 70 000. A value may
/// be as short as a byte and takes up to 90 in memory, so the text's length bounds too little.
const VALUE_LIMIT: usize = 1_000_000;

/// A value, with all that is in it.
pub(super) struct Node<'t> {
    pub(super) value: Value<'t>,
    /// Line and column, from 1.
    pub(super) position: (usize, usize),
}

pub(super) enum Value<'t> {
    /// Without quotes: a text, a number, a boolean or null.
    Plain(Cow<'t, str>),
    /// In quotes, or a block scalar.
    Text(Cow<'t, str>),
    List(Vec<Node<'t>>),
    Mapping(Vec<(Node<'t>, Node<'t>)>),
}

/// Reads events into nodes.
struct Builder<'t> {
    events: Parser<'t, StrInput<'t>>,
    /// How many nodes were begun so far.
    values: usize,
}

type Result<T> = std::result::Result<T, SpecError>;

/// Reads the first document of `text`. At most [`DEPTH_LIMIT`] levels and
/// [`VALUE_LIMIT`] values.
pub(super) fn read(text: &[u8]) -> Result<Node<'_>> {
    let text = check(text)?;
    let mut options = Options::default();
    options.set_emit_comments(false);
    options.flow_nesting_limit = DEPTH_LIMIT;
    options.block_nesting_limit = DEPTH_LIMIT;
    let mut builder = Builder {
        events: Parser::new_from_str_with_options(text, options),
        values: 0,
    };
    loop {
        match builder.next()? {
            (Event::StreamStart | Event::DocumentStart(..), _) => {}
            (Event::StreamEnd, span) => {
                return Err(malformed(
                    "the text contains no YAML document",
                    at(span.start),
                ));
            }
            begun => {
                let root = builder.node(begun, 0)?;
                // Text after the value still belongs to this document.
                builder.next()?;
                return Ok(root);
            }
        }
    }
}

// === impl Node ===

impl Node<'_> {
    /// Line and column of the field at `path` (`devices[3].containerEdits`), or of the
    /// innermost field around it that is there.
    pub(super) fn locate(&self, path: &str) -> (usize, usize) {
        let (step, rest) = path.split_once(['.', '[']).unwrap_or((path, ""));
        let child = match &self.value {
            Value::List(entries) => {
                let index = step.trim_end_matches(']').parse().ok();
                index.and_then(|index: usize| entries.get(index))
            }
            Value::Mapping(entries) if !step.is_empty() => {
                let mut entries = entries.iter();
                let found = entries.find(|(key, _)| key.text().is_ok_and(|key| key == step));
                found.map(|(_, value)| value)
            }
            _ => None,
        };
        child.map_or(self.position, |child| child.locate(rest))
    }
}

// === impl Builder ===

impl<'t> Builder<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span)> {
        match self.events.next_event() {
            Some(event) => event.map_err(|error| scan_error(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    /// The node that begins with `event`.
    // req: CDI-19
    fn node(&mut self, (event, span): (Event<'t>, Span), depth: usize) -> Result<Node<'t>> {
        self.values += 1;
        let problem = match &event {
            _ if depth > DEPTH_LIMIT => TOO_DEEP,
            _ if self.values > VALUE_LIMIT => "has more than 1000000 values",
            Event::Alias(_) => "has an alias (`*`)",
            event if event.anchor_id().is_some() => "has an anchor (`&`)",
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, _, Some(_))
            | Event::MappingStart(_, _, Some(_)) => "has a tag (`!`)",
            Event::Scalar(text, ScalarStyle::Plain, ..) if text == "<<" => "has a merge key (`<<`)",
            _ => "",
        };
        if !problem.is_empty() {
            return Err(SpecError::new(SpecFault::TooComplex(problem)).at(Some(at(span.start))));
        }
        let value = match event {
            Event::Scalar(text, ScalarStyle::Plain, ..) => Value::Plain(text),
            Event::Scalar(text, ..) => Value::Text(text),
            Event::SequenceStart(..) => {
                let mut entries = Vec::new();
                while let Some(entry) = self.child(&Event::SequenceEnd, depth)? {
                    entries.push(entry);
                }
                entries.shrink_to_fit();
                Value::List(entries)
            }
            Event::MappingStart(..) => {
                let mut entries = Vec::new();
                while let Some(key) = self.child(&Event::MappingEnd, depth)? {
                    let value = self.next()?;
                    entries.push((key, self.node(value, depth + 1)?));
                }
                entries.shrink_to_fit();
                Value::Mapping(entries)
            }
            _ => return Err(malformed("a value is missing", at(span.start))),
        };
        Ok(Node {
            value,
            position: at(span.start),
        })
    }

    /// The next child of a node that ends with `end`.
    fn child(&mut self, end: &Event<'_>, depth: usize) -> Result<Option<Node<'t>>> {
        let begun = self.next()?;
        if begun.0 == *end {
            return Ok(None);
        }
        self.node(begun, depth + 1).map(Some)
    }
}

/// The text without its byte order mark, if all readers read its characters the same way.
fn check(bytes: &[u8]) -> Result<&str> {
    let text = str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
        unfit("is not UTF-8", &String::from_utf8_lossy(before))
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match text.char_indices().find(|(_, c)| !is_allowed(*c)) {
        Some((at, c)) => {
            let reason = format!("has the character U+{:04X}", u32::from(c));
            Err(unfit(&reason, text.get(..at).unwrap_or_default()))
        }
        None => Ok(text),
    }
}

/// What YAML allows, except line breaks and marks that only some readers recognize.
fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..)
        && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// An error at the end of the text `before`.
fn unfit(reason: &str, before: &str) -> SpecError {
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    malformed(&format!("the text {reason}"), (line, column))
}

const TOO_DEEP: &str = "is nested too deeply";

/// Line and column, from 1.
fn at(marker: Marker) -> (usize, usize) {
    (marker.line().max(1), marker.col() + 1)
}

fn malformed(reason: &str, at: (usize, usize)) -> SpecError {
    SpecError::new(SpecFault::Syntax(reason.to_owned())).at(Some(at))
}

fn scan_error(error: &ScanError) -> SpecError {
    let fault = match error.kind() {
        ErrorKind::RecursionLimitExceeded => SpecFault::TooComplex(TOO_DEEP),
        kind => SpecFault::Syntax(kind.to_string()),
    };
    SpecError::new(fault).at(Some(at(*error.marker())))
}
