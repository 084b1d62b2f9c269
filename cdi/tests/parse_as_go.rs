//! `Spec::parse`, compared with the CDI library in Go on the same texts.
//!
//! `fixtures/yaml/verdicts.jsonl` has a case on each line: the text, and what
//! Go holds after reading it (`go`) or why it refuses it (`goRefuses`). Where `Spec::parse` differs
//! on purpose, the case has the reason (`differs`).
#![cfg(feature = "inject")]
#![expect(
    clippy::unwrap_used,
    reason = "a failed unwrap outside a test function fails the test too"
)]

#[path = "support/go_tool.rs"]
mod go_tool;
#[path = "support/verdicts.rs"]
mod verdicts;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use imex_cdi::{ContainerEdits, Device, DeviceName, Spec, SpecError};
use serde_json::{Map, Value, json};

use crate::go_tool::Go;
use crate::verdicts::{Case, VERDICTS, cases, mutants, questions, read_cases};

/// The value without fields that Go treats as absent, and with this crate's spelling of versions
/// and permissions.
fn as_go_sees_it(mut value: Value) -> Value {
    strip(&mut value);
    if let Some(Value::String(version)) = value.get_mut("cdiVersion") {
        *version = version.trim_start_matches('v').to_owned();
    }
    value
}

fn strip(value: &mut Value) {
    match value {
        Value::Array(entries) => entries.iter_mut().for_each(strip),
        Value::Object(fields) => {
            fields.values_mut().for_each(strip);
            strip_fields(fields);
        }
        _ => {}
    }
}

fn strip_fields(fields: &mut Map<String, Value>) {
    fields.retain(|key, value| match key.as_str() {
        "major" | "minor" => *value != 0,
        // Go writes none of these when empty, but an empty struct.
        "schemata" => value.as_array().is_none_or(|lines| !lines.is_empty()),
        "containerEdits" => value.as_object().is_none_or(|edits| !edits.is_empty()),
        _ => true,
    });
    if let Some(Value::String(letters)) = fields.get_mut("permissions") {
        *letters = "rwm".chars().filter(|c| letters.contains(*c)).collect();
    }
}

fn ours(text: &[u8]) -> Result<Value, SpecError> {
    let spec = Spec::parse(text)?;
    Ok(as_go_sees_it(
        serde_json::from_slice(&spec.to_json()).unwrap(),
    ))
}

/// Reasons to refuse text that Go reads. No generator of specs writes such text.
const REFUSED: [&str; 9] = [
    "UTF-16",
    "a bracket after the end",
    "a comment right after a text or bracket",
    "a key in other letters",
    "a line break or mark of Unicode",
    "a number in an unusual spelling",
    "a number or boolean without quotes as a text",
    "a tag",
    "an anchor, alias or merge key",
];

// req: CDI-18
#[test]
fn a_text_is_read_as_go_reads_it_or_refused_for_a_listed_reason() {
    let mut wrong = Vec::new();
    let mut reasons = BTreeSet::new();
    let cases = cases();
    for case in &cases {
        assert_ne!(
            case.go.is_some(),
            case.go_refuses.is_some(),
            "{}",
            case.name
        );
        let go = case.go.clone().map(as_go_sees_it);
        let ours = ours(&case.bytes());
        let same = ours.as_ref().ok() == go.as_ref();
        let is_explained = match (&ours, &case.differs) {
            _ if same => case.differs.is_none(),
            (Ok(_), reason) => reason.is_some(),
            (Err(_), Some(reason)) => REFUSED.contains(&reason.as_str()),
            (Err(_), None) => false,
        };
        if ours.is_err() {
            reasons.extend(case.differs.as_deref());
        }
        if !is_explained {
            let go = go.map_or_else(|| case.go_refuses.clone().unwrap(), |go| go.to_string());
            let ours = ours.map_or_else(|error| error.to_string(), |ours| ours.to_string());
            wrong.push(format!("{}\n  go:   {go}\n  ours: {ours}", case.name));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
    assert_eq!(reasons, BTreeSet::from(REFUSED));
}

/// Go's answers to `cases`, as JSON lines; `None` without Go.
fn ask_go(cases: &str) -> Option<Vec<Case>> {
    let go = Go::find("no text was shown to the Go library")?;
    Some(read_cases(&go.ask("oracle", &["./verdict"], cases)))
}

/// Skipped where there is no Go.
// req: CDI-18
#[test]
fn the_recorded_verdicts_match_go() {
    let Some(now) = ask_go(VERDICTS) else {
        return;
    };
    assert_eq!(now.len(), cases().len());
    for (now, kept) in now.into_iter().zip(cases()) {
        // The texts of errors depend on the Go version.
        assert_eq!(now.go, kept.go, "{}: {:?}", kept.name, now.go_refuses);
    }
}

/// How many texts are made of the cases.
const MUTANTS: usize = 2_000;

/// Skipped where there is no Go.
// req: CDI-18
#[test]
fn damaged_texts_are_read_as_go_reads_them() {
    let texts = mutants(MUTANTS, |case| case.differs.is_none());
    let Some(answers) = ask_go(&questions(&texts)) else {
        return;
    };
    let mut wrong = Vec::new();
    let mut compared = 0;
    for (text, answer) in texts.iter().zip(answers) {
        let (Ok(ours), Some(go)) = (ours(text), answer.go) else {
            continue;
        };
        compared += 1;
        let go = as_go_sees_it(go);
        if ours != go {
            let text = String::from_utf8_lossy(text);
            wrong.push(format!("{text:?}\n  go:   {go}\n  ours: {ours}"));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > MUTANTS / 10, "{compared} were compared");
}

/// A spec with `text` in each field that takes any.
fn spec_with(text: &str) -> Spec {
    let of_json = |json: Value| serde_json::from_value(json).unwrap();
    let edits: ContainerEdits = of_json(json!({
        "env": [format!("A{text}={text}")],
        "deviceNodes": [{"path": format!("/{text}"), "hostPath": format!("{text}/")}],
        "netDevices": [{"hostInterfaceName": format!("h{text}"), "name": format!("{text}n")}],
        "hooks": [{"hookName": "prestart", "path": format!(" {text} "), "args": [text],
            "env": [format!("B={text}")]}],
        "mounts": [{"hostPath": format!("h{text}"), "containerPath": format!("c{text}c"),
            "options": [text], "type": format!("{text}t")}],
        "intelRdt": {"l3CacheSchema": format!("{text}x"), "memBwSchema": format!("x{text}"),
            "schemata": [text]},
    }));
    let annotations = BTreeMap::from([(format!("k{text}"), text.to_owned())]);
    let device = Device {
        name: DeviceName::new("d").unwrap(),
        annotations: annotations.clone(),
        container_edits: edits.clone(),
    };
    let spec = Spec::new("vendor.com/class".parse().unwrap(), vec![device]).unwrap();
    let spec = spec.with_container_edits(edits).unwrap();
    spec.with_annotations(annotations).unwrap()
}

/// Characters at each border between literal and escaped ones in JSON and YAML, and all of one or
/// two bytes.
fn characters() -> impl Iterator<Item = char> {
    let ranges = [
        0..=0x17f,
        0x7fe..=0x801,
        0x1ff0..=0x2070,
        0xd7f0..=0xe010,
        0xfdc0..=0xfdf0,
        0xfef0..=0xff01,
        0xfff0..=0x1_0010,
        0x1_fff0..=0x2_0001,
        0x10_fff0..=0x10_ffff,
    ];
    ranges.into_iter().flatten().filter_map(char::from_u32)
}

/// Compared with Go if it is installed, and always with JSON and this crate's reader.
#[test]
fn every_text_is_read_back_by_all_as_it_was_written() {
    let chars: Vec<char> = characters().collect();
    let mut random = fastrand::Rng::with_seed(5);
    let alone = chars.iter().map(char::to_string);
    let mixed: Vec<String> = (0..300)
        .map(|_| (0..8).filter_map(|_| random.choice(&chars)).collect())
        .collect();
    let mut requests = String::new();
    let mut written = Vec::new();
    for text in alone.chain(mixed) {
        let spec = spec_with(&text);
        let json = String::from_utf8(spec.to_json()).unwrap();
        let value: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["annotations"][format!("k{text}")], text, "{json}");
        assert_eq!(Spec::from_json(json.as_bytes()).unwrap(), spec, "{json}");
        assert_eq!(Spec::parse(json.as_bytes()).unwrap(), spec, "{json}");
        assert_eq!(
            Spec::parse(format!("# YAML\n{json}").as_bytes()).unwrap(),
            spec,
            "{json}"
        );
        writeln!(requests, "{}", json!({"name": text, "text": json})).unwrap();
        written.push(value);
    }
    let Some(read) = ask_go(&requests) else {
        return;
    };
    assert_eq!(read.len(), written.len());
    for (go, written) in read.into_iter().zip(written) {
        let found = go.go.map(as_go_sees_it);
        let refused = go.go_refuses;
        assert_eq!(
            found,
            Some(as_go_sees_it(written)),
            "{:?}: {refused:?}",
            go.name
        );
    }
}
