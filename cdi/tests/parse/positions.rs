//! Field, line and column of faults.

use imex_cdi::Spec;

/// A spec of one device with these edits, each on its own line from line 6.
fn yaml(edits: &[&str]) -> String {
    let edits: String = edits.iter().flat_map(|line| ["    ", line, "\n"]).collect();
    format!(
        "cdiVersion: 0.5.0\nkind: vendor.com/class\ndevices:\n- name: dev\n  containerEdits:\n{edits}"
    )
}

#[track_caller]
fn assert_fault(text: &str, field: Option<&str>, position: (usize, usize), message: &str) {
    let error = Spec::parse(text.as_bytes()).unwrap_err();
    assert_eq!(error.field(), field, "{error}");
    assert_eq!(error.position(), Some(position), "{error}");
    let (line, column) = position;
    let place = format!(" (line {line}, column {column})");
    assert_eq!(error.to_string().strip_suffix(&place), Some(message));
}

#[test]
fn a_fault_has_the_position_of_its_field() {
    assert_fault(
        &yaml(&["env: [A=b]", "deviceNodes:", "- path: /x", "- path: ''"]),
        Some("devices[0].containerEdits.deviceNodes[1].path"),
        (9, 13),
        "CDI device vendor.com/class=dev: containerEdits.deviceNodes[1].path is empty",
    );
    assert_fault(
        &yaml(&["env: [A=b, A]"]),
        Some("devices[0].containerEdits.env[1]"),
        (6, 16),
        "CDI device vendor.com/class=dev: containerEdits.env[1] is not NAME=value",
    );
    assert_fault(
        &yaml(&["env: []"]),
        Some("devices[0].containerEdits"),
        (6, 5),
        "CDI device vendor.com/class=dev has no edits",
    );
    assert_fault(
        &yaml(&["additionalGids: [1]"]),
        Some("cdiVersion"),
        (1, 13),
        "CDI spec of vendor.com/class declares version 0.5.0, but \
         devices[0].containerEdits.additionalGids needs version 0.7.0",
    );
}

#[test]
fn a_value_of_a_wrong_type_has_its_position() {
    assert_fault(
        &yaml(&["deviceNodes:", "- {path: /x, major: one}"]),
        Some("devices[0].containerEdits.deviceNodes[0].major"),
        (7, 25),
        "devices[0].containerEdits.deviceNodes[0].major: `one` is not a 64-bit integer",
    );
    assert_fault(
        &yaml(&["env: [A=b]"]).replace("dev\n", "a b\n"),
        Some("devices[0].name"),
        (4, 9),
        "devices[0].name: CDI device name \"a b\" cannot have ' ' in it",
    );
}

// req: CDI-16
#[test]
fn an_unknown_or_repeated_field_has_the_position_of_its_key() {
    assert_fault(
        &yaml(&["env: [A=b]", "evn: []"]),
        Some("devices[0].containerEdits.evn"),
        (7, 5),
        "devices[0].containerEdits.evn: unknown field `evn`, expected one of \
         `env`, `deviceNodes`, `netDevices`, `hooks`, `mounts`, `intelRdt`, `additionalGids`",
    );
    assert_fault(
        &yaml(&["env: [A=b]", "env: [C=d]"]),
        Some("devices[0].containerEdits.env"),
        (7, 5),
        "devices[0].containerEdits.env: the field is repeated",
    );
}

#[test]
fn a_repeated_version_is_not_an_unknown_one() {
    let text = yaml(&["env: [A=b]"]) + "cdiVersion: 0.5.0\n";
    let error = Spec::parse(text.as_bytes()).unwrap_err();
    assert_eq!(error.field(), Some("cdiVersion"));
    assert_eq!(error.code(), "cdi-spec-malformed");
    assert!(error.hint().contains("one of the two"), "{}", error.hint());
}

#[test]
fn a_syntax_error_has_its_position() {
    let error = Spec::parse(b"cdiVersion: 0.5.0\nkind: [\n").unwrap_err();
    assert_eq!(error.code(), "cdi-spec-malformed");
    assert_eq!(error.field(), None);
    assert_eq!(error.position().map(|(line, _)| line), Some(2));

    let error = Spec::parse(b"kind: a\xffb\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "the text is not UTF-8 (line 1, column 8)"
    );

    let error = Spec::parse("a: b\nc: \u{7f}\n".as_bytes()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the text has the character U+007F (line 2, column 4)"
    );
}

// req: CDI-18
#[test]
fn ambiguous_texts_are_refused_with_their_position() {
    for (line, position, reason) in [
        ("env: &e [A=b]", (6, 13), "has an anchor (`&`)"),
        ("<<: {env: [A=b]}", (6, 5), "has a merge key (`<<`)"),
        ("env: [!!str A=b]", (6, 17), "has a tag (`!`)"),
        ("? [env]\n    : [A=b]", (6, 7), "a list is not a text"),
        ("env:\n\t- A=b", (7, 2), "tabs disallowed"),
        (
            "env: [A=\u{2028}]",
            (6, 13),
            "the text has the character U+2028",
        ),
    ] {
        let error = Spec::parse(yaml(&[line]).as_bytes()).unwrap_err();
        assert_eq!(error.position(), Some(position), "{line}: {error}");
        assert!(error.to_string().contains(reason), "{line}: {error}");
    }
}

// req: CDI-18
#[test]
fn a_number_or_boolean_in_place_of_a_text_is_read_only_if_every_reader_keeps_its_spelling() {
    let with = |name: &str| yaml(&["env: [A=b]"]).replace("name: dev", &format!("name: {name}"));
    for name in [
        "0",
        "16",
        "1.5",
        "550.54",
        "0.0001",
        "true",
        "0:1",
        "12:30:45",
        "1g.5gb",
        "0xg",
        "0b12",
        "1e",
        "2001-01-01",
        "0.3.0",
        "inf",
        "nan",
        "tRue",
        "GPU-1",
        "'0x10'",
        "\"yes\"",
    ] {
        let spec = Spec::parse(with(name).as_bytes()).unwrap();
        let read = spec.devices()[0].name.as_str();
        assert_eq!(read, name.trim_matches(['\'', '"']));
    }
    for name in [
        "0x10",
        "010",
        "08",
        "0o17",
        "0b11",
        "1_000",
        "1e3",
        "1.0",
        "1.50",
        ".5",
        "5.",
        "0.00001",
        "1234567.5",
        "-0",
        "+1",
        ".inf",
        "-.INF",
        ".nan",
        "18446744073709551615",
        "yes",
        "No",
        "on",
        "y",
        "True",
    ] {
        assert_fault(
            &with(name),
            Some("devices[0].name"),
            (4, 9),
            &format!(
                "devices[0].name: `{name}` is not a text to all YAML readers: put the value in quotes"
            ),
        );
    }
}

#[test]
fn a_fault_in_json_has_field_and_position_too() {
    let json = r#"{"cdiVersion":"0.3.0","kind":"a/b","devices":[{"name":"c","containerEdits":{"env":["A"]}}]}"#;
    let error = Spec::parse(json.as_bytes()).unwrap_err();
    assert_eq!(error.field(), Some("devices[0].containerEdits.env[0]"));
    assert_eq!(error.position(), Some((1, 84)));
}

#[test]
fn many_small_faults_do_not_make_a_long_list() {
    let env = vec!["x"; 100_000].join(", ");
    let text = yaml(&[&format!("env: [{env}]")]);
    assert_eq!(Spec::parse_all(text.as_bytes()).unwrap_err().len(), 1000);
}

#[test]
fn the_error_for_a_future_version_lists_the_known_ones() {
    let text = yaml(&["env: [A=b]"]).replace("0.5.0", "9.0.0");
    let error = Spec::parse(text.as_bytes()).unwrap_err();
    assert_eq!(error.field(), Some("cdiVersion"));
    assert!(
        error.hint().contains("from 0.3.0 to 1.1.0"),
        "{}",
        error.hint()
    );
}

#[test]
fn parse_all_returns_every_fault() {
    let text = yaml(&[
        "env: [A, B=c, =d]",
        "hooks:",
        "- {hookName: never, path: ''}",
    ]);
    let text = text.replace("0.5.0", "0.2.0") + "containerEdits: {mounts: [{hostPath: /a}]}\n";
    assert_eq!(
        Spec::parse_all(text.as_bytes()).unwrap_err().len(),
        1,
        "a missing field is one"
    );
    let text = text.replace("{hostPath: /a}", "{hostPath: '', containerPath: /b}");
    let faults = Spec::parse_all(text.as_bytes()).unwrap_err();
    let faults: Vec<_> = faults.iter().map(|fault| fault.field().unwrap()).collect();
    assert_eq!(
        faults,
        [
            "cdiVersion",
            "containerEdits.mounts[0].hostPath",
            "devices[0].containerEdits.env[0]",
            "devices[0].containerEdits.env[2]",
            "devices[0].containerEdits.hooks[0].hookName",
            "devices[0].containerEdits.hooks[0].path",
        ]
    );
}
