use std::fmt::Write;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2);
    digits
        .map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap())
        .collect()
}

#[test]
fn strings_are_escaped_like_in_go() {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Vector {
        in_utf8_hex: String,
        out_json_hex: String,
    }
    let text = include_str!("../../tests/fixtures/go-json-string-vectors.json");
    let vectors: Vec<Vector> = serde_json::from_str(text).unwrap();
    assert!(vectors.len() > 0xa0);
    for vector in vectors {
        // A Rust string cannot contain the bytes that Go replaces by U+FFFD.
        let given = String::from_utf8(bytes(&vector.in_utf8_hex)).unwrap();
        assert_eq!(
            to_string(&given).unwrap().as_bytes(),
            bytes(&vector.out_json_hex)
        );
    }
}

#[test]
fn floats_are_written_like_in_go() {
    #[derive(Deserialize)]
    struct Vector {
        bits: String,
        json: String,
    }
    #[derive(Deserialize)]
    struct Vectors {
        f64: Vec<Vector>,
        f32: Vec<Vector>,
    }
    let text = include_str!("../../tests/fixtures/go-float-vectors.json");
    let vectors: Vectors = serde_json::from_str(text).unwrap();
    assert!(vectors.f64.len() >= 200 && vectors.f32.len() >= 80);
    for Vector { bits, json } in vectors.f64 {
        let value = f64::from_bits(u64::from_str_radix(&bits, 16).unwrap());
        assert_eq!(to_string(&value).unwrap(), json, "{bits}");
    }
    for Vector { bits, json } in vectors.f32 {
        let value = f32::from_bits(u32::from_str_radix(&bits, 16).unwrap());
        assert_eq!(to_string(&value).unwrap(), json, "{bits}");
    }
}

/// A JSON string by the rules of Go's `encoding/json`, character by character.
fn reference(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\u{8}' => out += r"\b",
            '\t' => out += r"\t",
            '\n' => out += r"\n",
            '\u{c}' => out += r"\f",
            '\r' => out += r"\r",
            '\0'..' ' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                write!(out, r"\u{:04x}", u32::from(c)).unwrap();
            }
            _ => out.push(c),
        }
    }
    out + "\""
}

fn assert_encoded(text: &str) {
    let json = to_string(text).unwrap();
    assert_eq!(json, reference(text));
    assert_eq!(compact(&json), json);
    assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
}

/// Scope: each of the 1 112 064 characters between two others.
#[test]
fn every_character_is_escaped_like_in_go_and_read_back() {
    for c in '\0'..=char::MAX {
        assert_encoded(&format!("a{c}b"));
    }
}

/// Scope: every three of the special characters, their neighbours, and some characters
/// of each length in UTF-8.
#[test]
fn every_three_special_characters_are_escaped_like_in_go_and_read_back() {
    let controls = '\0'..=' ';
    let others =
        "\"\\/<=>&';a\u{7f}\u{80}\u{e2}\u{7ff}\u{2027}\u{2028}\u{2029}\u{202a}\u{ffff}\u{10ffff}";
    let special: Vec<char> = controls.chain(others.chars()).collect();
    for first in &special {
        for second in &special {
            for third in &special {
                assert_encoded(&String::from_iter([first, second, third]));
            }
        }
    }
}

/// Scope: every JSON text of up to 6 of the relevant characters.
#[test]
fn every_short_json_keeps_its_value_and_loses_its_white_space() {
    const CHARACTERS: &[u8; 8] = b"\"\\< [],1";
    let mut count = 0;
    for length in 1..=6 {
        for n in 0..CHARACTERS.len().pow(length) {
            let character = |at| CHARACTERS[n / CHARACTERS.len().pow(at) % CHARACTERS.len()];
            let text = String::from_utf8((0..length).map(character).collect()).unwrap();
            let Ok(value) = serde_json::from_str::<serde_json::Value>(&text) else {
                continue;
            };
            let written = compact(&text);
            // Numbers are digits only here, so no spelling is lost.
            assert_eq!(written, to_string(&value).unwrap(), "{text}");
            count += 1;
        }
    }
    assert!(count > 2000, "{count}");
}

#[test]
fn map_keys_are_escaped_too() {
    let map = std::collections::BTreeMap::from([("<k>", 1)]);
    assert_eq!(to_string(&map).unwrap(), r#"{"\u003ck\u003e":1}"#);
}

#[test]
fn raw_json_is_compacted_like_in_go() {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Vector {
        raw_in: String,
        raw_out: String,
    }
    let text = include_str!("../../tests/fixtures/go-rawextension-vectors.json");
    let vectors: Vec<Vector> = serde_json::from_str(text).unwrap();
    assert!(!vectors.is_empty());
    for vector in vectors {
        assert_eq!(compact(&vector.raw_in), vector.raw_out);
        assert_eq!(
            compact(&vector.raw_out),
            vector.raw_out,
            "compacting is idempotent"
        );
        let raw = RawValue::from_string(vector.raw_in).unwrap();
        assert_eq!(to_string(&raw).unwrap(), vector.raw_out);
    }
}

#[test]
fn a_quote_after_an_escaped_backslash_ends_the_string() {
    assert_eq!(
        compact(r#"{"a\\" : "\\\" <" , "b" : 1}"#),
        r#"{"a\\":"\\\" \u003c","b":1}"#
    );
}
