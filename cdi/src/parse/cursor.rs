//! A position in a tree, and the budget for reading on from it.

use std::cell::Cell;

use serde::de::Error;

use super::error::ReadError;
use super::scalar::Scalar;
use super::tree::{DEPTH_LIMIT, NodeId, Tree, VALUE_LIMIT, Value};

/// How often a node is read at most, without aliases.
const READS: usize = 3;

/// How often a text may be read as a whole with its aliases, as long as they
/// cost no more than [`VALUE_LIMIT`].
const ALIAS_RATIO: usize = 16;

/// What any text may cost, however short it is.
const FREE_COST: usize = 10_000;

/// A node to be read as some type.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a, 't> {
    tree: &'a Tree<'t>,
    id: NodeId,
    budget: &'a Budget,
}

/// What reading one document may still cost: aliases can expand a short text
/// exponentially.
pub(super) struct Budget(Cell<usize>);

type Entries = Vec<(NodeId, NodeId)>;

// === impl Budget ===

impl Budget {
    /// The budget for reading `tree` once.
    pub(super) fn new(tree: &Tree<'_>) -> Self {
        let cost = tree.cost();
        let for_aliases = VALUE_LIMIT.min(cost.saturating_mul(ALIAS_RATIO - READS));
        let most = cost.saturating_mul(READS).saturating_add(for_aliases);
        Self(Cell::new(FREE_COST.max(most)))
    }

    // req: CDI-19
    fn spend(&self, cost: usize) -> Result<(), ReadError> {
        let remaining = self.0.get().checked_sub(cost);
        self.0.set(remaining.ok_or_else(ReadError::too_many)?);
        Ok(())
    }
}

// === impl Cursor ===

impl<'a, 't> Cursor<'a, 't> {
    /// The root of `tree`.
    pub(super) fn new(tree: &'a Tree<'t>, budget: &'a Budget) -> Self {
        Self {
            tree,
            id: tree.root,
            budget,
        }
    }

    /// The node's value. Each call is paid for.
    pub(super) fn value(self) -> Result<&'a Value<'t>, ReadError> {
        let value = &self.tree.node(self.id).value;
        self.budget.spend(value.cost())?;
        Ok(value)
    }

    /// Line and column, from 1.
    pub(super) fn position(self) -> (usize, usize) {
        self.tree.node(self.id).position
    }

    /// Another node of the same tree.
    pub(super) fn at(self, id: NodeId) -> Self {
        Self { id, ..self }
    }

    /// `entries` of this mapping, and those of the mappings that it merges.
    pub(super) fn entries(
        self,
        entries: &[(NodeId, NodeId)],
        depth: usize,
    ) -> Result<Entries, ReadError> {
        if depth > DEPTH_LIMIT {
            return Err(ReadError::too_many());
        }
        let mut all = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let of_key = self.at(*key);
            if !matches!(of_key.value()?, Value::Scalar(Scalar::Merge)) {
                all.push((*key, *value));
                continue;
            }
            let of_value = self.at(*value);
            let merged = match of_value.value()? {
                Value::Sequence(maps) => maps.as_slice(),
                _ => std::slice::from_ref(value),
            };
            for map in merged {
                let Value::Mapping(entries) = self.at(*map).value()? else {
                    let error = ReadError::custom("'<<' takes a mapping or a list of mappings");
                    return Err(error.at(of_value.position()));
                };
                all.extend(self.entries(entries, depth + 1)?);
            }
        }
        Ok(all)
    }
}
