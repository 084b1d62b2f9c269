//! Short texts that are expensive to parse.

use std::fmt::Write;
use std::time::{Duration, Instant};

use imex_cdi::{Spec, SpecError};

const HEAD: &str = "cdiVersion: 0.6.0\nkind: vendor.com/class\n";

/// Far more than reading takes, even in an emulator, and far less than expanding these texts would
/// take.
const GIVE_UP: Duration = Duration::from_secs(120);

fn refused(text: &str) -> SpecError {
    let start = Instant::now();
    let error = Spec::parse(text.as_bytes()).unwrap_err();
    assert!(start.elapsed() < GIVE_UP, "{:?}", start.elapsed());
    error
}

// req: CDI-19
#[test]
fn an_anchor_is_refused_before_an_alias_can_multiply_it() {
    let device = "- &d0 {name: d, containerEdits: {env: [A=b]}}\n";
    let mut lists = format!("{HEAD}devices:\n{device}");
    let mut merges = lists.clone();
    for level in 1..50_000 {
        writeln!(lists, "- &d{level} [*d{0}, *d{0}]", level - 1).unwrap();
        writeln!(merges, "- &d{level} {{<<: [*d{0}, *d{0}]}}", level - 1).unwrap();
    }
    for text in [lists, merges] {
        let error = refused(&text);
        assert_eq!(error.to_string(), "has an anchor (`&`) (line 4, column 7)");
        assert_eq!(error.code(), "cdi-spec-too-complex");
        assert!(error.hint().contains("without anchors"), "{}", error.hint());
    }
}

#[test]
fn a_text_of_millions_of_values_is_refused_before_they_take_memory() {
    let values = vec!["A="; 4_000_000].join(",");
    let text = format!("{HEAD}devices: [{{name: d, containerEdits: {{env: [{values}]}}}}]");
    let error = refused(&text);
    assert_eq!(error.code(), "cdi-spec-too-complex");
    assert!(error.to_string().contains("1000000 values"), "{error}");
}

// req: CDI-19
#[test]
fn deep_nesting_is_refused() {
    for (open, close) in [
        ("[", "]"),
        ("{a: ", "}"),
        ("- ", ""),
        ("? ", ""),
        ("[{a: ", "}]"),
    ] {
        for depth in [25, 200, 100_000] {
            let text = format!("{}{}", open.repeat(depth), close.repeat(depth));
            let error = refused(&text);
            assert!(
                ["cdi-spec-too-complex", "cdi-spec-malformed"].contains(&error.code()),
                "{open:?}: {error}"
            );
        }
    }
    let json = "[".repeat(1_000_000);
    assert_eq!(refused(&json).code(), "cdi-spec-too-complex");
    let error = Spec::from_json(json.as_bytes()).unwrap_err();
    assert_eq!(error.code(), "cdi-spec-malformed");
}

#[test]
fn long_texts_of_one_kind_take_no_more_than_their_length() {
    for piece in [
        "a", "#", " ", "\n", "- ", "&a ", "*a ", "!a ", "'", "\"", "a: ", "? ", ", ", "%", "\t",
        "|\n", "---\n",
    ] {
        let text = piece.repeat(200_000);
        refused(&text);
        refused(&format!("{HEAD}x: [{text}"));
    }
}
