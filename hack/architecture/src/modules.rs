//! The modules of a crate, and the items of other modules that each names.
//!
//! ```text
//! files ──syn──► Module (items, imports, paths) ──resolve──► ModuleGraph ──► circles
//! ```
//!
//! A module is a file, including its inline modules. An arrow leads from the
//! module that names an item to the one that *defines* it. Re-exports are
//! resolved, so a parent that only re-exports its children's names gets no
//! arrows. Test code does not count.
//!
//! Not found: methods (a call does not name the module of its `impl`), and
//! names that a macro generates.

mod file;
mod resolve;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use self::file::{Module, ModuleFile};
use crate::error::Error;

/// The uses between modules of a crate, and the names that they use.
#[derive(Debug, Default)]
pub(crate) struct ModuleGraph {
    /// The modules' files, below the crate's first file.
    files: Vec<String>,
    /// From, to: the names.
    arrows: BTreeMap<(usize, usize), BTreeSet<String>>,
}

/// Modules that use each other, directly or transitively.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Circle {
    pub(crate) files: Vec<String>,
    /// One line for each arrow inside.
    pub(crate) arrows: Vec<String>,
}

// === impl ModuleGraph ===

impl ModuleGraph {
    /// Reads a crate from its first file.
    pub(crate) fn of_crate(first: &Path) -> Result<Self, Error> {
        let modules = load(first)?;
        let top = first.parent().unwrap_or(first);
        let shown = |module: &Module| {
            let path = module.path.strip_prefix(top).unwrap_or(&module.path);
            path.display().to_string()
        };
        let mut uses = Self {
            files: modules.iter().map(shown).collect(),
            arrows: BTreeMap::new(),
        };
        for from in 0..modules.len() {
            for (to, name) in resolve::items_named_in(&modules, from) {
                if to != from {
                    uses.arrows.entry((from, to)).or_default().insert(name);
                }
            }
        }
        Ok(uses)
    }

    pub(crate) fn modules(&self) -> usize {
        self.files.len()
    }

    pub(crate) fn arrows(&self) -> usize {
        self.arrows.len()
    }

    pub(crate) fn circles(&self) -> Vec<Circle> {
        let graph: DiGraphMap<usize, ()> = DiGraphMap::from_edges(self.arrows.keys().copied());
        let tied = tarjan_scc(&graph).into_iter();
        let mut circles: Vec<Circle> = tied
            .filter(|modules| modules.len() > 1)
            .map(|modules| self.circle(&modules.into_iter().collect()))
            .collect();
        circles.sort_by(|a, b| a.files.cmp(&b.files));
        circles
    }

    /// The uses of one of these files, as (user, used).
    pub(crate) fn uses_of(
        &self,
        is_used: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = (&str, &str)> {
        let file = |module: &usize| self.files.get(*module).map_or("", String::as_str);
        let arrows = self
            .arrows
            .keys()
            .map(move |(from, to)| (file(from), file(to)));
        arrows.filter(move |(_, used)| is_used(used))
    }

    fn circle(&self, modules: &BTreeSet<usize>) -> Circle {
        let file = |module: &usize| self.files.get(*module).cloned().unwrap_or_default();
        let inside = self.arrows.iter();
        let inside =
            inside.filter(|((from, to), _)| modules.contains(from) && modules.contains(to));
        Circle {
            files: modules.iter().map(file).collect(),
            arrows: inside
                .map(|((from, to), names)| {
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    format!("{} -> {}: {}", file(from), file(to), names.join(", "))
                })
                .collect(),
        }
    }
}

/// The module of `first`, then all modules below it, parents before children.
fn load(first: &Path) -> Result<Vec<Module>, Error> {
    let top = first.parent().unwrap_or(first).to_owned();
    let mut modules = vec![];
    let mut todo = vec![(first.to_owned(), None, String::new(), top)];
    while let Some((path, parent, name, below)) = todo.pop() {
        let text = fs::read_to_string(&path).map_err(|source| Error::Read {
            path: path.clone(),
            source,
        })?;
        let file = ModuleFile::parse(&text).map_err(|source| Error::Parse {
            path: path.clone(),
            source,
        })?;
        let index = modules.len();
        for child in &file.children {
            let found = child.file(&path, &below).ok_or_else(|| Error::NoModule {
                path: path.clone(),
                module: child.name.clone(),
            })?;
            let deeper = child.directory(&found, &below);
            todo.push((found, Some(index), child.name.clone(), deeper));
        }
        modules.push(Module {
            path,
            parent,
            name,
            file,
        });
    }
    Ok(modules)
}

#[cfg(test)]
mod tests;
