//! Specs with very many entries, up to the length that is read.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use super::{Place, stderr, stdout};

/// A spec that sets one variable so many times.
pub(super) fn repeated_variables(count: usize) -> String {
    let env = vec!["A="; count];
    let device = json!({"name": "one", "containerEdits": {"env": env}});
    json!({"cdiVersion": "0.3.0", "kind": "example.com/sign", "devices": [device]}).to_string()
}

/// A spec of one kind with so many devices.
fn devices(kind: &str, count: usize) -> String {
    let device = |at: usize| {
        let node = json!({"path": format!("/dev/x{at}"), "type": "c", "major": 7, "minor": at});
        json!({"name": format!("d{at}"), "containerEdits": {"deviceNodes": [node]}})
    };
    let devices: Vec<Value> = (0..count).map(device).collect();
    json!({"cdiVersion": "0.3.0", "kind": kind, "devices": devices}).to_string()
}

#[test]
fn the_first_hundred_findings_of_a_code_are_reported_and_the_rest_counted() {
    let place = Place::new();
    fs::create_dir(place.at("specs")).unwrap();
    place.write("specs/many.json", &repeated_variables(200_000));
    for words in ["validate specs", "validate specs/many.json"] {
        let printed = place.out(words, 1);
        assert_eq!(printed.lines().count(), 101, "{words}");
        assert_eq!(
            printed.lines().last(),
            Some(
                "specs/many.json: warn: 199899 more not shown; the limit is 100 [variable-repeated]"
            )
        );
        let json: Value = serde_json::from_str(&place.out(&format!("{words} --json"), 1)).unwrap();
        assert_eq!(json["findings"].as_array().unwrap().len(), 100);
        let more = json!([{"level": "warn", "file": "specs/many.json", "code": "variable-repeated", "count": 199_899}]);
        assert_eq!(json["more"], more);
        let printed = place.out(&format!("{words} --level error"), 0);
        assert_eq!(printed, "specs/many.json: OK\n");
    }
}

#[test]
fn the_first_hundred_conflicts_of_each_file_are_reported() {
    let place = Place::new();
    fs::create_dir(place.at("specs")).unwrap();
    for file in ["a.json", "b.json"] {
        place.write(&format!("specs/{file}"), &devices("example.com/sign", 150));
    }
    for words in ["validate specs", "validate specs/a.json specs/b.json"] {
        let printed = place.out(words, 1);
        assert_eq!(printed.lines().count(), 202, "{words}");
        assert!(printed.ends_with(
            "specs/a.json: error: 50 more not shown; the limit is 100 [cdi-device-conflict]\n\
             specs/b.json: error: 50 more not shown; the limit is 100 [cdi-device-conflict]\n"
        ));
    }
}

#[test]
fn a_host_with_many_devices_is_examined_in_little_memory() {
    let place = Place::new();
    fs::create_dir(place.at("specs")).unwrap();
    for file in 0..5 {
        let spec = devices(&format!("v{file}.example/sign"), 7000);
        assert!((700_000..1 << 20).contains(&spec.len()), "{}", spec.len());
        place.write(&format!("specs/{file}.json"), &spec);
    }
    // In KiB; the program itself takes 16 000 (8 000 if optimised). With space for four entries in
    // each list, and a copy of each name in each report, an optimised build took 60 000, 57 000 and
    // 40 000.
    for (words, limit) in [
        ("list", 57_000),
        ("list --json", 57_000),
        ("validate", 40_000),
    ] {
        let program = env!("CARGO_BIN_EXE_cdi-gen");
        let run = format!("ulimit -v {limit} && exec {program} {words} --root . --spec-dir /specs");
        let mut shell = Command::new("sh");
        let output = shell.args(["-c", &run]).current_dir(place.at("."));
        let output = output.output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(0),
            "{words}: {}",
            stderr(&output)
        );
        assert!(!stdout(&output).is_empty(), "{words}");
    }
}
