use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::*;

/// A field of each kind that serde reads differently.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Sample {
    desk_s: Option<Box<Self>>,
    list: Vec<Self>,
    by_name: BTreeMap<String, Self>,
    pair: (i64, f64),
    kind: Option<Kind>,
    wrapped: Option<Wrapped>,
    any: Value,
    raw: Option<Box<RawValue>>,
    text: String,
}

#[derive(Debug, Deserialize)]
#[serde(transparent)]
#[expect(dead_code, reason = "only printed")]
struct Wrapped(Vec<Sample>);

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "only printed")]
enum Kind {
    Unit,
    Newtype(Box<Sample>),
    Struct { id: u128 },
}

fn error(text: &str) -> Option<String> {
    from_go_json::<Sample>(text).err().map(|e| e.to_string())
}

#[test]
fn valid_json_is_read_like_by_serde() {
    let text = r#"{"deskS":{"text":"Text"},"list":[{"text":"a"}],"byName":{"Text":{},"LIST":{}},
        "pair":[-1,2.5],"kind":{"Newtype":{"kind":"Unit"}},"wrapped":[{"text":"b"}],
        "any":{"Any":[1,"x"]},"raw":{"RAW": 1.0},"\u0074ext":"c","new":{"Text":0}}"#;
    let (ours, serdes): (Sample, Sample) = (
        from_go_json(text).unwrap(),
        serde_json::from_str(text).unwrap(),
    );
    assert_eq!(format!("{ours:?}"), format!("{serdes:?}"));
    assert_eq!(ours.raw.unwrap().get(), r#"{"RAW": 1.0}"#);
    let kind = from_go_json(r#"{"kind":{"Struct":{"id":7}}}"#);
    assert!(matches!(
        kind,
        Ok(Sample {
            kind: Some(Kind::Struct { id: 7 }),
            ..
        })
    ));
}

#[test]
fn a_name_that_only_go_matches_is_refused_at_any_depth() {
    for bad in [
        r#"{"Text":""}"#,
        r#"{"\u0054ext":""}"#,
        r#"{"DESKS":null}"#,
        "{\"des\u{212a}S\":null}",
        "{\"de\u{17f}kS\":null}",
        r#"{"kind":{"Struct":{"id":1,"ID":2}}}"#,
    ] {
        for outer in [
            "_",
            r#"{"deskS":_}"#,
            r#"{"list":[{},_]}"#,
            r#"{"byName":{"a":_}}"#,
            r#"{"kind":{"Newtype":_}}"#,
            r#"{"wrapped":[_]}"#,
        ] {
            let text = outer.replace('_', bad);
            let error = error(&text);
            assert!(error.is_some_and(|e| e.contains("Go reads ")), "{text}");
        }
    }
}

#[test]
fn a_duplicate_field_and_an_array_for_an_object_are_refused() {
    for (text, part) in [
        (r#"{"text":"","text":""}"#, "duplicate"),
        (r#"{"text":"","te\u0078t":""}"#, "duplicate"),
        (r#"{"deskS":[]}"#, "expected an object"),
        (r#"{"list":[[]]}"#, "expected an object"),
        ("{} {}", "trailing"),
    ] {
        let error = error(text).unwrap();
        assert!(error.contains(part), "{text}: {error}");
    }
}
