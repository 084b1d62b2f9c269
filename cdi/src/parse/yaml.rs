//! The first document of a YAML text, as a tree.

use std::borrow::Cow;
use std::collections::BTreeMap;

use granit_parser::{ErrorKind, Event, Options, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::scalar::Scalar;
use super::text;
use super::tree::{DEPTH_LIMIT, Node, NodeId, Tree, VALUE_LIMIT, Value};
use crate::SpecError;
use crate::spec::SpecFault;

/// Reads events into nodes.
struct Builder<'t> {
    text: &'t str,
    events: Parser<'t, StrInput<'t>>,
    nodes: Vec<Node<'t>>,
    respelled: Vec<NodeId>,
    /// How many nodes and aliases were begun so far.
    values: usize,
    /// The complete nodes that have an anchor: an alias within its own anchor
    /// finds none.
    anchors: BTreeMap<usize, NodeId>,
}

type Result<T> = std::result::Result<T, SpecError>;

/// Reads the first document of `text`. At most [`DEPTH_LIMIT`] levels and
/// [`VALUE_LIMIT`] values.
pub(super) fn read(text: &[u8]) -> Result<Tree<'_>> {
    let text = text::check(text)?;
    let mut options = Options::default();
    options.set_emit_comments(false);
    options.flow_nesting_limit = DEPTH_LIMIT;
    options.block_nesting_limit = DEPTH_LIMIT;
    let mut builder = Builder {
        text,
        events: Parser::new_from_str_with_options(text, options),
        nodes: Vec::new(),
        respelled: Vec::new(),
        values: 0,
        anchors: BTreeMap::new(),
    };
    let root = builder.document()?;
    Ok(Tree {
        nodes: builder.nodes,
        respelled: builder.respelled,
        root,
    })
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
                    && let Some(reason) = span.slice(self.text).and_then(text::newer_escape)
                {
                    return Err(syntax(reason, span));
                }
                let scalar = Scalar::resolve(text.clone(), plain, tag.as_deref());
                let scalar = scalar.map_err(|reason| syntax(reason, span))?;
                if scalar.to_text().is_some_and(|value| value != text) {
                    // It has no children, so it is the next node.
                    self.respelled.push(NodeId(self.nodes.len()));
                }
                Value::Scalar(scalar)
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
