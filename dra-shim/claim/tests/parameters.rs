//! Opaque parameters, strictly decoded and not.
#![expect(clippy::unwrap_used, reason = "a test helper")]

use dra_claim::{Parameters, ParametersError};

const KNOWN: [&str; 7] = [
    "apiVersion",
    "kind",
    "light",
    "light.color",
    "light.rooms",
    "light.rooms.*",
    "name",
];

fn strict_error(json: &str) -> String {
    let parameters = Parameters::parse(json).unwrap();
    parameters.deny_unknown(&KNOWN).unwrap_err().to_string()
}

#[test]
fn unknown_and_duplicate_fields_are_named_by_path_in_their_order() {
    let json = r#"{"Name": 1, "light": {"color": 1, "c\u006flor": 2, "x": {"y": 1}}, "name": 1, "name": 2}"#;
    assert_eq!(
        strict_error(json),
        "strict decoding error: unknown field \"Name\", duplicate field \"light.color\", \
         unknown field \"light.x\", duplicate field \"name\""
    );
}

#[test]
fn arbitrary_names_are_allowed_where_they_are_known_to_be_but_not_twice() {
    let rooms = |rooms: &str| format!(r#"{{"light": {{"rooms": {rooms}}}}}"#);
    for known in [r#"{"a": 1, "b.c": {"d": 1}}"#, "{}", "null", "[1]"] {
        let json = rooms(known);
        let parameters = Parameters::parse(&json).unwrap();
        assert!(parameters.deny_unknown(&KNOWN).is_ok(), "{known}");
    }
    assert_eq!(
        strict_error(&rooms(r#"{"a": 1, "a": 2}"#)),
        r#"strict decoding error: duplicate field "light.rooms.a""#
    );
}

#[test]
fn a_name_with_a_dot_is_not_the_path_of_a_field() {
    assert_eq!(
        strict_error(r#"{"light.color": 1}"#),
        r#"strict decoding error: unknown field "light.color""#
    );
}

#[test]
fn each_type_is_read_and_another_one_is_named() {
    let json = r#"{"text": "a", "flag": true, "number": 7, "size": "4Gi", "bytes": 1024, "object": {"inner": 1}}"#;
    let all = Parameters::parse(json).unwrap();
    assert_eq!(all.string("text").unwrap().as_deref(), Some("a"));
    assert_eq!(all.bool("flag").unwrap(), Some(true));
    assert_eq!(all.integer("number").unwrap(), Some(7));
    assert_eq!(all.quantity("size").unwrap(), Some(4 << 30));
    assert_eq!(all.quantity("bytes").unwrap(), Some(1024));
    assert_eq!(
        all.names(),
        ["text", "flag", "number", "size", "bytes", "object"]
    );
    let object = all.object("object").unwrap().unwrap();
    let errors = [
        (
            object.string("inner").err(),
            r#""object.inner" is not a string"#,
        ),
        (all.string("number").err(), r#""number" is not a string"#),
        (all.bool("text").err(), r#""text" is not a boolean"#),
        (all.integer("text").err(), r#""text" is not an integer"#),
        (all.quantity("text").err(), r#""text" is not a quantity"#),
        (all.quantity("flag").err(), r#""flag" is not a quantity"#),
        (all.object("text").err(), r#""text" is not an object"#),
    ];
    for (error, text) in errors {
        let error = error.unwrap();
        assert_eq!(error.to_string(), format!("field {text}"));
        assert_eq!(error.code(), "config-field-type");
    }
    assert!(
        Parameters::parse(r#"{"a": 1.0}"#)
            .unwrap()
            .integer("a")
            .is_err()
    );
}

#[test]
fn null_is_absent_and_the_last_value_that_is_not_null_is_used() {
    let json = r#"{"a": "x", "a": "y", "a": null, "b": null, "c": {"d": 1}, "c": {"d": 2}}"#;
    let parameters = Parameters::parse(json).unwrap();
    assert_eq!(parameters.string("a").unwrap().as_deref(), Some("y"));
    assert_eq!(parameters.string("b").unwrap(), None);
    assert_eq!(parameters.string("A").unwrap(), None);
    assert_eq!(parameters.names(), ["a", "b", "c"]);
    let object = parameters.object("c").unwrap().unwrap();
    assert_eq!(object.integer("d").unwrap(), Some(2));
}

#[test]
fn kind_and_version_must_be_there_and_the_version_the_expected_one() {
    for (json, error) in [
        (r#"{"apiVersion": "v1"}"#, "object 'kind' is missing"),
        (
            r#"{"apiVersion": "v1", "kind": ""}"#,
            "object 'kind' is missing",
        ),
        (r#"{"kind": "A"}"#, "object 'apiVersion' is missing"),
        (r#"{"kind": 1}"#, r#"field "kind" is not a string"#),
        (
            r#"{"apiVersion": "v2", "kind": "A"}"#,
            r#"no kind "A" is registered for version "v2""#,
        ),
    ] {
        let found = Parameters::parse(json).unwrap().kind_of("v1").unwrap_err();
        assert_eq!(found.to_string(), error);
    }
    let json = r#"{"kind": "A", "apiVersion": "v1"}"#;
    assert_eq!(Parameters::parse(json).unwrap().kind_of("v1").unwrap(), "A");
}

#[test]
fn what_is_not_a_json_object_is_refused() {
    for json in ["", "null", "[]", "\"x\"", "a: 1", "{", "{} {}"] {
        let error = Parameters::parse(json).unwrap_err();
        assert!(
            matches!(error, ParametersError::NotAnObject { .. }),
            "{json:?}"
        );
    }
}
