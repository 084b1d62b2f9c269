use std::fs;

use super::*;

/// A crate of these files; the modules' files are siblings of the first one.
fn mk_graph(files: &[(&str, &str)]) -> ModuleGraph {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    ModuleGraph::of_crate(&dir.path().join("lib.rs")).unwrap()
}

fn arrows(graph: &ModuleGraph) -> Vec<String> {
    let file = |module: &usize| graph.files[*module].as_str();
    let mut arrows: Vec<String> = graph
        .arrows
        .iter()
        .flat_map(|((from, to), names)| {
            let arrow = format!("{} -> {}: ", file(from), file(to));
            names.iter().map(move |name| format!("{arrow}{name}"))
        })
        .collect();
    arrows.sort();
    arrows
}

#[test]
fn modules_that_name_each_others_items_are_a_circle() {
    let graph = mk_graph(&[
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::B; pub struct A(B);"),
        ("b.rs", "pub struct B; fn f(_: super::a::A) {}"),
    ]);
    let circles = graph.circles();
    assert_eq!(circles.len(), 1);
    assert_eq!(circles[0].arrows, ["b.rs -> a.rs: A", "a.rs -> b.rs: B"]);
}

#[test]
fn a_circle_may_be_longer() {
    let graph = mk_graph(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "pub fn a() { crate::b::b() }"),
        ("b.rs", "pub fn b() { crate::c::c() }"),
        ("c.rs", "pub fn c() { crate::a::a() }"),
    ]);
    assert_eq!(graph.circles()[0].files.len(), 3);
}

#[test]
fn re_exports_of_a_parent_are_resolved() {
    let graph = mk_graph(&[
        ("lib.rs", "mod a; pub use a::Low;"),
        (
            "a.rs",
            "mod low; mod high; pub use low::Low; pub use high::High;",
        ),
        ("a/low.rs", "pub struct Low;"),
        ("a/high.rs", "pub struct High(super::Low, crate::Low);"),
    ]);
    assert_eq!(graph.circles(), []);
    assert!(arrows(&graph).contains(&"a/high.rs -> a/low.rs: Low".to_owned()));
}

#[test]
fn a_child_that_names_its_parents_item_is_in_a_circle_with_it() {
    let graph = mk_graph(&[
        ("lib.rs", "mod a;"),
        ("a.rs", "mod child; pub struct A; fn f() { child::f() }"),
        ("a/child.rs", "pub fn f() { let _ = super::A; }"),
    ]);
    assert_eq!(graph.circles()[0].files, ["a.rs", "a/child.rs"]);
}

#[test]
fn names_are_found_in_macros_and_attributes() {
    let graph = mk_graph(&[
        ("lib.rs", "mod a; mod de;"),
        (
            "a.rs",
            r#"
            use crate::de;
            #[derive(Deserialize)]
            #[error("{}", crate::de::shown())]
            pub struct A { #[serde(deserialize_with = "de::text")] text: String }
            fn f(x: u8) -> bool { matches!(x, de::FIRST | crate::de::LAST) }
            "#,
        ),
        (
            "de.rs",
            "pub fn text() {} pub fn shown() {} pub const FIRST: u8 = 0; pub const LAST: u8 = 1;",
        ),
    ]);
    let expected = [
        "a.rs -> de.rs: FIRST",
        "a.rs -> de.rs: LAST",
        "a.rs -> de.rs: shown",
        "a.rs -> de.rs: text",
    ];
    assert_eq!(arrows(&graph), expected);
}

#[test]
fn glob_imports_and_renamed_imports_are_resolved() {
    let graph = mk_graph(&[
        ("lib.rs", "mod a; mod b;"),
        (
            "a.rs",
            "use super::b::{B as Other, *}; fn f(_: Other) { g() }",
        ),
        ("b.rs", "pub struct B; pub fn g() {}"),
    ]);
    assert_eq!(arrows(&graph), ["a.rs -> b.rs: B", "a.rs -> b.rs: g"]);
}

#[test]
fn test_code_and_other_crates_do_not_count() {
    let graph = mk_graph(&[
        ("lib.rs", "mod a; mod b; use std::fmt;"),
        (
            "a.rs",
            "pub struct A; use serde_json; #[cfg(test)] mod tests { use crate::b::B; }",
        ),
        (
            "b.rs",
            "use crate::a::A; pub struct B(A); #[cfg(all(test, unix))] mod gone;",
        ),
    ]);
    assert_eq!(arrows(&graph), ["b.rs -> a.rs: A"]);
}

#[test]
fn modules_are_found_where_rustc_finds_them() {
    let graph = mk_graph(&[
        (
            "lib.rs",
            r#"mod a; mod b; #[path = "elsewhere/x.rs"] mod c;"#,
        ),
        ("a/mod.rs", "mod inner;"),
        ("a/inner.rs", ""),
        ("b.rs", "mod inner;"),
        ("b/inner.rs", ""),
        ("elsewhere/x.rs", "mod beside;"),
        ("elsewhere/beside.rs", ""),
    ]);
    assert_eq!(graph.modules(), 7);
}

#[test]
fn a_module_without_a_file_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let first = dir.path().join("lib.rs");
    fs::write(&first, "mod gone;").unwrap();
    let error = ModuleGraph::of_crate(&first).unwrap_err().to_string();
    assert!(
        error.ends_with("has no file for its module gone"),
        "{error}"
    );
}
