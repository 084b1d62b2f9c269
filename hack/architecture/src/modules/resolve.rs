//! Resolves a path in the source to the module that defines its item.

use super::file::{Module, Names};

/// The limit for chains of re-exports, so that a circle of them ends.
const MAX_STEPS: usize = 32;

/// The target of a path.
#[derive(Debug)]
enum Found {
    /// A module. Naming it alone is not a use.
    Module(usize),
    /// An item, in the module that defines it.
    Item(usize, String),
}

/// Every item of this crate that a module names, with the module that defines it.
pub(super) fn items_named_in(modules: &[Module], from: usize) -> Vec<(usize, String)> {
    let Some(module) = modules.get(from) else {
        return vec![];
    };
    let imports = module.file.imports.values();
    let paths = imports.chain(&module.file.paths);
    let found = paths.filter_map(|path| resolve(modules, from, path, MAX_STEPS));
    found
        .filter_map(|found| match found {
            Found::Item(module, name) => Some((module, name)),
            Found::Module(_) => None,
        })
        .collect()
}

/// The target of a path in the module `from`; `None` if it is in another crate.
fn resolve(modules: &[Module], from: usize, path: &Names, steps: usize) -> Option<Found> {
    let steps = steps.checked_sub(1)?;
    let (first, rest) = path.split_first()?;
    let mut at = match first.as_str() {
        "crate" => Found::Module(0),
        "self" => Found::Module(from),
        "super" => Found::Module(modules.get(from)?.parent?),
        name => lookup(modules, from, name, steps)?,
    };
    for name in rest {
        at = match at {
            Found::Module(module) if name == "super" => Found::Module(modules.get(module)?.parent?),
            Found::Module(module) => lookup(modules, module, name, steps)?,
            // A variant or an associated item belongs to its type.
            Found::Item(..) => break,
        };
    }
    Some(at)
}

/// The target of a name in a module: a child, an item, or an import.
fn lookup(modules: &[Module], module: usize, name: &str, steps: usize) -> Option<Found> {
    let steps = steps.checked_sub(1)?;
    let is_child = |child: &Module| child.parent == Some(module) && child.name == name;
    if let Some(child) = modules.iter().position(is_child) {
        return Some(Found::Module(child));
    }
    let file = &modules.get(module)?.file;
    if file.defines.contains(name) {
        return Some(Found::Item(module, name.to_owned()));
    }
    match file.imports.get(name) {
        // `use serde_json;` names another crate, not itself.
        Some(path) if path.first().is_some_and(|first| first == name) => None,
        Some(path) => resolve(modules, module, path, steps),
        None => file
            .globs
            .iter()
            .find_map(|glob| match resolve(modules, module, glob, steps)? {
                Found::Module(other) if other != module => lookup(modules, other, name, steps),
                Found::Module(_) | Found::Item(..) => None,
            }),
    }
}
