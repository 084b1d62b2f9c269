//! A module's file: the items that it defines, imports and names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, Meta, UseTree};

/// A path as written: `crate::a::B`.
pub(super) type Names = Vec<String>;

/// A module of a crate.
#[derive(Debug)]
pub(super) struct Module {
    pub(super) path: PathBuf,
    /// Its index among the crate's modules; none for the crate itself.
    pub(super) parent: Option<usize>,
    pub(super) name: String,
    pub(super) file: ModuleFile,
}

/// The contents of a file.
#[derive(Debug, Default)]
pub(super) struct ModuleFile {
    pub(super) children: Vec<Child>,
    /// The items that it defines, also in inline modules.
    pub(super) defines: BTreeSet<String>,
    /// The path of each import, by its local name.
    pub(super) imports: BTreeMap<String, Names>,
    /// The paths imported by `*`.
    pub(super) globs: Vec<Names>,
    /// Every path in its items, bodies and macros.
    pub(super) paths: BTreeSet<Names>,
}

/// `mod name;`
#[derive(Debug)]
pub(super) struct Child {
    pub(super) name: String,
    /// The value of its `path` attribute.
    path: Option<String>,
}

struct Collector<'a>(&'a mut ModuleFile);

// === impl ModuleFile ===

impl ModuleFile {
    pub(super) fn parse(text: &str) -> syn::Result<Self> {
        let syntax = syn::parse_file(text)?;
        let mut file = Self::default();
        let mut collector = Collector(&mut file);
        for item in &syntax.items {
            collector.visit_item(item);
        }
        Ok(file)
    }
}

// === impl Child ===

impl Child {
    /// The file of this child. Its parent module is in `parent`; the parent's
    /// children are in `directory`.
    pub(super) fn file(&self, parent: &Path, directory: &Path) -> Option<PathBuf> {
        if let Some(path) = &self.path {
            return Some(parent.parent()?.join(path));
        }
        let candidates = [
            directory.join(format!("{}.rs", self.name)),
            directory.join(&self.name).join("mod.rs"),
        ];
        candidates.into_iter().find(|path| path.is_file())
    }

    /// The directory of this child's children: beside its file if the `path`
    /// attribute names the file or it is a `mod.rs`, otherwise a directory of its name.
    pub(super) fn directory(&self, file: &Path, directory: &Path) -> PathBuf {
        let is_mod = file.file_name().is_some_and(|name| name == "mod.rs");
        match file.parent() {
            Some(beside) if is_mod || self.path.is_some() => beside.to_owned(),
            _ => directory.join(&self.name),
        }
    }
}

// === impl Collector ===

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if attributes_of(item).iter().any(is_test_only) {
            return;
        }
        if let Some(name) = defined_name(item) {
            self.0.defines.insert(name);
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.content.is_none() {
            let path = module.attrs.iter().find_map(path_attribute);
            let name = module.ident.to_string();
            self.0.children.push(Child { name, path });
        }
        visit::visit_item_mod(self, module);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.import(&mut vec![], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            let names = path.segments.iter().map(|it| it.ident.to_string());
            self.0.paths.insert(names.collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.add_tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.add_tokens(list.tokens.clone());
            self.add_quoted(list.tokens.clone());
        }
        visit::visit_attribute(self, attribute);
    }
}

impl Collector<'_> {
    fn import(&mut self, prefix: &mut Names, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.import(prefix, &path.tree);
                prefix.pop();
            }
            UseTree::Name(name) => self.import_as(prefix, &name.ident, &name.ident),
            UseTree::Rename(rename) => self.import_as(prefix, &rename.ident, &rename.rename),
            UseTree::Glob(_) => self.0.globs.push(prefix.clone()),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(prefix, tree);
                }
            }
        }
    }

    fn import_as(&mut self, prefix: &Names, name: &syn::Ident, alias: &syn::Ident) {
        let mut path = prefix.clone();
        if name != "self" {
            path.push(name.to_string());
        }
        let alias = if alias == "self" {
            path.last().cloned().unwrap_or_default()
        } else {
            alias.to_string()
        };
        self.0.imports.insert(alias, path);
    }

    /// Adds the paths among tokens that only their macro can parse.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path: Names = vec![];
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' && colons < 2 => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.add_path(&mut path);
                    }
                    path.push(ident.to_string());
                }
                TokenTree::Group(group) => {
                    self.add_path(&mut path);
                    self.add_tokens(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => self.add_path(&mut path),
            }
            colons = 0;
        }
        self.add_path(&mut path);
    }

    fn add_path(&mut self, path: &mut Names) {
        if !path.is_empty() {
            self.0.paths.insert(std::mem::take(path));
        }
    }

    /// Adds the paths in an attribute's strings: `#[serde(with = "a::b")]`.
    fn add_quoted(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.add_quoted(group.stream()),
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    if let Ok(path) = syn::parse_str::<syn::Path>(text.trim_matches('"')) {
                        self.visit_path(&path);
                    }
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => {}
            }
        }
    }
}

fn attributes_of(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        Item::Macro(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Union(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        _ => &[],
    }
}

fn defined_name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(it) => &it.ident,
        Item::Enum(it) => &it.ident,
        Item::Fn(it) => &it.sig.ident,
        Item::Macro(it) => it.ident.as_ref()?,
        Item::Mod(it) if it.content.is_some() => &it.ident,
        Item::Static(it) => &it.ident,
        Item::Struct(it) => &it.ident,
        Item::Trait(it) => &it.ident,
        Item::Type(it) => &it.ident,
        Item::Union(it) => &it.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// `#[cfg(test)]`, `#[cfg(doctest)]`, `#[cfg(all(test, ...))]`.
fn is_test_only(attribute: &Attribute) -> bool {
    let Meta::List(list) = &attribute.meta else {
        return false;
    };
    let only = list.tokens.to_string().replace(' ', "");
    list.path.is_ident("cfg")
        && (only == "test" || only == "doctest" || only.starts_with("all(test,"))
}

fn path_attribute(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else {
        return None;
    };
    let syn::Expr::Lit(literal) = &pair.value else {
        return None;
    };
    match &literal.lit {
        syn::Lit::Str(path) if pair.path.is_ident("path") => Some(path.value()),
        _ => None,
    }
}
