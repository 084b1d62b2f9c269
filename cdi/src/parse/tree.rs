//! A YAML document in memory, with the position of each node.

use super::scalar::Scalar;

/// No field of a spec lies deeper than a third of this.
pub(super) const DEPTH_LIMIT: usize = 24;

/// Most values (keys and aliases among them) of a document. 2 048 channels in
/// YAML have 70 000. A value may be as short as a byte or two and takes some 130
/// in memory, so the length of the text alone bounds too little.
pub(super) const VALUE_LIMIT: usize = 1_000_000;

/// A document. An alias is the id of its target.
///
/// All nodes are in one list, so that neither reading nor dropping a long chain
/// of aliases goes deep into the stack.
pub(super) struct Tree<'t> {
    /// Children before their parents.
    pub(super) nodes: Vec<Node<'t>>,
    pub(super) root: NodeId,
    /// The scalars that are spelled otherwise than the text of their value, ascending: few, or
    /// none.
    pub(super) respelled: Vec<NodeId>,
}

/// A node's index in its own tree; never one of another tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeId(pub(super) usize);

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

// === impl Tree ===

impl<'t> Tree<'t> {
    /// What it costs to read every node once.
    pub(super) fn cost(&self) -> usize {
        self.nodes.iter().map(|node| node.value.cost()).sum()
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "an id is made when its node is added, and no node is ever removed"
    )]
    pub(super) fn node(&self, id: NodeId) -> &Node<'t> {
        &self.nodes[id.0]
    }

    pub(super) fn is_respelled(&self, id: NodeId) -> bool {
        self.respelled.binary_search(&id).is_ok()
    }

    /// Line and column of the field at `path` (`devices[3].containerEdits`), or
    /// of the innermost field around it that is there.
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
            Value::Scalar(Scalar::Text(key)) => same_name(key, name),
            _ => false,
        };
        let mut entries = entries.iter();
        entries.find(|(key, _)| is_named(key)).map(|(_, v)| *v)
    }
}

// === impl Value ===

impl Value<'_> {
    /// What it costs to read the node, its children not counted: about one for
    /// each 16 bytes of memory.
    pub(super) fn cost(&self) -> usize {
        match self {
            Self::Scalar(Scalar::Text(text)) => 1 + text.len() / 16,
            _ => 1,
        }
    }
}

/// Whether `key` is the field `name` in any case, as `encoding/json` has it:
/// with the two letters outside ASCII that fold to one within.
pub(super) fn same_name(key: &str, name: &str) -> bool {
    let fold = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    key.chars().map(fold).eq(name.chars().map(fold))
}
