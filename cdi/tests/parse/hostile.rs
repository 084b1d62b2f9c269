//! Texts that cost more than they show.

use std::fmt::Write;
use std::time::{Duration, Instant};

use imex_cdi::{Spec, SpecError};

const HEAD: &str = "cdiVersion: 0.6.0\nkind: vendor.com/class\n";

/// Far more than reading takes, also in an emulator, and far less than what these texts ask for.
const GIVE_UP: Duration = Duration::from_secs(120);

fn refused(text: &str) -> SpecError {
    let start = Instant::now();
    let error = Spec::parse(text.as_bytes()).unwrap_err();
    assert!(start.elapsed() < GIVE_UP, "{:?}", start.elapsed());
    error
}

// req: CDI-19
#[test]
fn aliases_of_aliases_of_aliases_are_not_written_out() {
    let mut text = HEAD.to_owned();
    text.push_str("devices:\n- &a0 {name: a, containerEdits: {env: [A=b]}}\n");
    text.push_str("containerEdits:\n  env:\n");
    let mut list = "[A=b, A=b, A=b, A=b, A=b, A=b, A=b, A=b, A=b, A=b]".to_owned();
    for level in 0..40 {
        writeln!(text, "  - &l{level} {list}").unwrap();
        list = format!("[{}]", vec![format!("*l{level}"); 10].join(", "));
    }
    // The lists are no texts, so the first is refused before it grows.
    assert_eq!(refused(&text).code(), "cdi-spec-malformed");
}

#[test]
fn aliases_that_multiply_a_text_of_the_right_shape_are_refused() {
    let env = vec!["A=b"; 1000].join(", ");
    let mut text = format!("{HEAD}devices:\n- name: d\n  containerEdits: &e {{env: [{env}]}}\n");
    for device in 0..1000 {
        writeln!(text, "- {{name: d{device}, containerEdits: *e}}").unwrap();
    }
    assert_eq!(refused(&text).code(), "cdi-spec-too-complex");
}

#[test]
fn aliases_of_a_long_text_are_refused() {
    let long = "x".repeat(1 << 20);
    let mut text = format!("{HEAD}devices:\n- name: d\n  containerEdits: {{env: [&e A={long}]}}\n");
    for device in 0..10_000 {
        writeln!(text, "- {{name: d{device}, containerEdits: {{env: [*e]}}}}").unwrap();
    }
    assert_eq!(refused(&text).code(), "cdi-spec-too-complex");
}

#[test]
fn aliases_within_reason_are_read() {
    let mut text = format!("{HEAD}devices:\n- name: d\n  containerEdits: &e {{env: [A=b, C=d]}}\n");
    for device in 0..2000 {
        writeln!(text, "- {{name: d{device}, containerEdits: *e}}").unwrap();
    }
    let spec = Spec::parse(text.as_bytes()).unwrap();
    assert_eq!(spec.devices().len(), 2001);
    assert_eq!(spec.devices()[2000].container_edits.env, ["A=b", "C=d"]);
}

#[test]
fn merges_that_chain_or_multiply_are_refused() {
    let mut chain = format!("{HEAD}devices:\n- &d0 {{name: d, containerEdits: {{env: [A=b]}}}}\n");
    let mut fan = chain.clone();
    for level in 1..50_000 {
        writeln!(chain, "- &d{level} {{<<: *d{}}}", level - 1).unwrap();
    }
    for level in 1..25 {
        writeln!(fan, "- &d{level} {{<<: [*d{0}, *d{0}, *d{0}]}}", level - 1).unwrap();
    }
    assert_eq!(refused(&chain).code(), "cdi-spec-too-complex");
    // Whatever is merged twice is a repeated field.
    assert_eq!(refused(&fan).code(), "cdi-spec-malformed");
}

#[test]
fn a_text_of_millions_of_values_is_refused_before_they_take_memory() {
    let values = vec!["A="; 4_000_000].join(",");
    let text = format!("{HEAD}devices: [{{name: d, containerEdits: {{env: [{values}]}}}}]");
    let error = refused(&text);
    assert_eq!(error.code(), "cdi-spec-too-complex");
    assert!(error.to_string().contains("1000000 values"), "{error}");
}

#[test]
fn aliases_count_as_values_and_as_what_they_stand_for() {
    let many = vec!["*e"; 4_000_000].join(",");
    let text = format!("{HEAD}devices: [{{name: d, containerEdits: {{env: [&e A=, {many}]}}}}]");
    assert!(refused(&text).to_string().contains("1000000 values"));

    // Each value may be read 16 times, but not a million over again.
    let padding = vec!["A=b"; 300_000].join(",");
    let devices = vec!["*d"; 300_000].join(",");
    let text = format!(
        "{HEAD}containerEdits: {{env: [{padding}]}}\n\
         devices: [&d {{name: d, containerEdits: {{env: [A=b, A=b, A=b, A=b]}}}}, {devices}]"
    );
    assert!(refused(&text).to_string().contains("too many aliases"));
}

#[test]
fn a_long_chain_of_aliases_does_not_go_deep() {
    let mut text = format!("{HEAD}annotations: {{a: &a0 b}}\ndevices:\n");
    for level in 1..100_000 {
        writeln!(text, "- &a{level} [*a{}]", level - 1).unwrap();
    }
    assert_eq!(refused(&text).code(), "cdi-spec-malformed");
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
fn an_anchor_within_itself_is_refused() {
    let text = format!("{HEAD}devices: &d\n- name: a\n  containerEdits: {{env: *d}}\n");
    assert_eq!(
        refused(&text).to_string(),
        "an alias is part of its own anchor (line 5, column 25)"
    );
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
