//! The first document of a YAML text.

use std::borrow::Cow;
use std::collections::BTreeMap;

use granit_parser::{ErrorKind, Event, Options, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::scalar::Scalar;
use crate::SpecError;
use crate::spec::SpecFault;

/// No field of a spec lies deeper than a third of this.
pub(super) const DEPTH_LIMIT: usize = 24;

/// 2 048 channels in YAML have 70 000 values, keys and aliases among them. A byte or two may
/// be a value, which takes many: this bounds what memory and time a text takes
/// beyond what its length does.
pub(super) const VALUE_LIMIT: usize = 1_000_000;

/// A document: its nodes, aliases being nothing but their target's number.
///
/// In one list, so that neither a long chain of aliases nor its release goes
/// deep into the stack.
pub(super) struct Tree<'t> {
    nodes: Vec<Node<'t>>,
    root: NodeId,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct NodeId(usize);

#[derive(Debug)]
pub(super) struct Node<'t> {
    pub(super) value: Value<'t>,
    /// Line and column, from 1.
    pub(super) position: (usize, usize),
}

#[derive(Debug)]
pub(super) enum Value<'t> {
    Scalar(Scalar<'t>),
    Sequence(Vec<NodeId>),
    Mapping(Vec<(NodeId, NodeId)>),
}

/// Reads events into nodes.
struct Builder<'t> {
    text: &'t str,
    events: Parser<'t, StrInput<'t>>,
    nodes: Vec<Node<'t>>,
    /// Those of the text begun so far, and its aliases.
    values: usize,
    /// Complete nodes only: an alias within its own anchor finds none.
    anchors: BTreeMap<usize, NodeId>,
}

type Result<T> = std::result::Result<T, SpecError>;

// === impl Tree ===

impl<'t> Tree<'t> {
    pub(super) fn read(text: &'t [u8]) -> Result<Self> {
        let text = characters(text)?;
        let mut options = Options::default();
        options.set_emit_comments(false);
        options.flow_nesting_limit = DEPTH_LIMIT;
        options.block_nesting_limit = DEPTH_LIMIT;
        let mut builder = Builder {
            text,
            events: Parser::new_from_str_with_options(text, options),
            nodes: Vec::new(),
            values: 0,
            anchors: BTreeMap::new(),
        };
        let root = builder.document()?;
        Ok(Self {
            nodes: builder.nodes,
            root,
        })
    }

    pub(super) fn root(&self) -> NodeId {
        self.root
    }

    /// What it costs to read every node that the text wrote, aliases' targets
    /// once.
    pub(super) fn cost(&self) -> usize {
        self.nodes.iter().map(|node| node.value.cost()).sum()
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "ids are handed out by the builder of this tree alone"
    )]
    pub(super) fn node(&self, id: NodeId) -> &Node<'t> {
        &self.nodes[id.0]
    }

    /// Where the field `path` stands, as `devices[3].containerEdits`; of what is
    /// not there, where the innermost field around it is.
    pub(super) fn locate(&self, path: &str) -> (usize, usize) {
        let mut id = self.root;
        for step in path.split(['.', '[']) {
            let found = match step.strip_suffix(']').map(str::parse::<usize>) {
                Some(Ok(index)) => self.entry(id, index),
                _ => self.field(id, step),
            };
            match found {
                Some(found) => id = found,
                None => break,
            }
        }
        self.node(id).position
    }

    fn entry(&self, id: NodeId, index: usize) -> Option<NodeId> {
        match &self.node(id).value {
            Value::Sequence(entries) => entries.get(index).copied(),
            _ => None,
        }
    }

    fn field(&self, id: NodeId, name: &str) -> Option<NodeId> {
        let Value::Mapping(entries) = &self.node(id).value else {
            return None;
        };
        let is_named = |key: &NodeId| match &self.node(*key).value {
            Value::Scalar(Scalar::Text(key)) => super::reader::same_name(key, name),
            _ => false,
        };
        let mut entries = entries.iter();
        entries.find(|(key, _)| is_named(key)).map(|(_, v)| *v)
    }
}

// === impl Value ===

impl Value<'_> {
    /// What it costs to read the node without those in it: about one for each 16
    /// bytes of memory.
    pub(super) fn cost(&self) -> usize {
        match self {
            Self::Scalar(Scalar::Text(text)) => 1 + text.len() / 16,
            _ => 1,
        }
    }
}

/// The text without byte order mark, all of it what YAML allows.
fn characters(text: &[u8]) -> Result<&str> {
    let text = std::str::from_utf8(text).map_err(|error| {
        let at = text.get(..error.valid_up_to()).unwrap_or_default();
        unreadable("is not UTF-8", &String::from_utf8_lossy(at))
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.starts_with('\u{feff}') {
        return Err(unreadable("has two byte order marks", ""));
    }
    match text.char_indices().find(|(_, c)| !is_allowed(*c)) {
        Some((at, c)) => {
            let before = text.get(..at).unwrap_or_default();
            let reason = format!("has the character U+{:04X}", u32::from(c));
            Err(unreadable(&reason, before))
        }
        None => Ok(text),
    }
}

fn unreadable(reason: &str, before: &str) -> SpecError {
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    let fault = SpecFault::Syntax(format!("the text {reason}"));
    SpecError::new(fault).at(Some((line, column)))
}

/// What YAML 1.1 allows, but for U+0085, which it takes for a line break and the
/// YAML that we read does not.
fn is_allowed(c: char) -> bool {
    matches!(c,
        '\t' | '\n' | '\r' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}'
        | '\u{10000}'..)
}

/// An escape of a double-quoted scalar, `source`, that YAML 1.2 has and 1.1 has
/// not, both for the sake of JSON.
fn newer_escape(source: &str) -> Option<&'static str> {
    let mut chars = source.chars();
    while let Some(c) = chars.next() {
        let escaped = if c == '\\' { chars.next() } else { None };
        match escaped {
            Some('/') => return Some("'\\/' is no escape of YAML 1.1"),
            Some('u') => {
                let mut digits = chars.as_str().chars().map(|c| c.to_ascii_lowercase());
                if digits.next() == Some('d') && digits.next().is_some_and(|c| c > '7') {
                    return Some("YAML 1.1 has no surrogates, use '\\U' and eight digits");
                }
            }
            _ => {}
        }
    }
    None
}

// === impl Builder ===

impl<'t> Builder<'t> {
    fn document(&mut self) -> Result<NodeId> {
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::DocumentStart(_, Some(version)) if version.minor != 1 => {
                    return Err(syntax("it is not YAML 1.1", &span));
                }
                Event::StreamStart | Event::DocumentStart(..) => {}
                Event::StreamEnd => return Err(syntax("there is no document", &span)),
                event => {
                    let root = self.node(event, &span, 0)?;
                    // What comes after the value is still this document's.
                    self.next()?;
                    return Ok(root);
                }
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'t>, Span)> {
        match self.events.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(scan_error(&error)),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn node(&mut self, event: Event<'t>, span: &Span, depth: usize) -> Result<NodeId> {
        if depth > DEPTH_LIMIT {
            return Err(too_deep().at(position(span)));
        }
        self.values += 1;
        if self.values > VALUE_LIMIT {
            let fault = SpecFault::TooComplex("has more than 1000000 values");
            return Err(SpecError::new(fault).at(position(span)));
        }
        let anchor = event.anchor_id();
        let value = match event {
            Event::Alias(target) => {
                let target = self.anchors.get(&target).copied();
                return target.ok_or_else(|| syntax("an alias is part of its own anchor", span));
            }
            Event::Scalar(text, style, _, tag) => {
                let plain = style == ScalarStyle::Plain;
                if style == ScalarStyle::DoubleQuoted
                    && let Some(reason) = span.slice(self.text).and_then(newer_escape)
                {
                    return Err(syntax(reason, span));
                }
                let scalar = Scalar::resolve(text, plain, tag.as_deref());
                Value::Scalar(scalar.map_err(|reason| syntax(reason, span))?)
            }
            Event::SequenceStart(..) => Value::Sequence(self.sequence(depth)?),
            Event::MappingStart(..) => Value::Mapping(self.mapping(depth)?),
            _ => return Err(syntax("a value is missing", span)),
        };
        let id = NodeId(self.nodes.len());
        let position = position(span).unwrap_or((1, 1));
        self.nodes.push(Node { value, position });
        if let Some(anchor) = anchor {
            self.anchors.insert(anchor, id);
        }
        Ok(id)
    }

    fn sequence(&mut self, depth: usize) -> Result<Vec<NodeId>> {
        let mut entries = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(entries);
            }
            entries.push(self.node(event, &span, depth + 1)?);
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Vec<(NodeId, NodeId)>> {
        let mut entries = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(entries);
            }
            let key = self.node(event, &span, depth + 1)?;
            let (event, span) = self.next()?;
            entries.push((key, self.node(event, &span, depth + 1)?));
        }
    }
}

fn position(span: &Span) -> Option<(usize, usize)> {
    let start = span.start;
    (start.line() > 0).then(|| (start.line(), start.col() + 1))
}

fn syntax<'a>(reason: impl Into<Cow<'a, str>>, span: &Span) -> SpecError {
    let reason = reason.into().into_owned();
    SpecError::new(SpecFault::Syntax(reason)).at(position(span))
}

fn too_deep() -> SpecError {
    SpecError::new(SpecFault::TooComplex("is nested too deeply"))
}

fn scan_error(error: &ScanError) -> SpecError {
    let at = error.marker();
    let position = Some((at.line(), at.col() + 1));
    if matches!(error.kind(), ErrorKind::RecursionLimitExceeded) {
        return too_deep().at(position);
    }
    let reason = error.kind().to_string();
    SpecError::new(SpecFault::Syntax(reason)).at(position)
}
