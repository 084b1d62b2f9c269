use imex_cdi::{Spec, SpecError};

use crate::error::is_helpful;

/// The number of prefixes to try of a long spec.
const PREFIXES: usize = 40;

/// Checks that a spec that was read can be written, and that the YAML and the JSON
/// reader read it back unchanged; no prefix of the written text is a spec; JSON is read
/// as the same spec as YAML; and an error names the place.
///
/// # Panics
///
/// If one of these properties does not hold.
#[expect(clippy::panic, reason = "a check of a fuzzer panics when it fails")]
pub fn spec(bytes: &[u8]) {
    let read = Spec::parse(bytes);
    match (&read, Spec::parse_all(bytes)) {
        (Ok(spec), Ok(again)) => assert_eq!(*spec, again),
        (Err(first), Err(all)) => {
            let told: Vec<String> = all.iter().map(ToString::to_string).collect();
            assert_eq!(told.first(), Some(&first.to_string()));
            for error in &all {
                check_error(bytes, error);
            }
        }
        (one, other) => panic!("one reading fails: {one:?}, {other:?}"),
    }
    if bytes.first() == Some(&b'{') {
        json_is_yaml(bytes, &read);
    }
    if let Ok(spec) = read {
        can_be_kept(&spec);
        check_version(&spec);
    }
}

/// Compares the JSON and the YAML reader: after a comment, a text is not JSON.
#[expect(clippy::panic, reason = "a check of a fuzzer panics when it fails")]
fn json_is_yaml(bytes: &[u8], read: &Result<Spec, SpecError>) {
    let behind_a_comment = [b"# \n", bytes].concat();
    match (read, Spec::parse(&behind_a_comment)) {
        (Ok(spec), Ok(again)) => assert_eq!(*spec, again),
        (Err(error), Err(again)) => assert_eq!(error.code(), again.code()),
        (one, other) => panic!("JSON and YAML differ: {one:?}, {other:?}"),
    }
}

#[expect(
    clippy::expect_used,
    reason = "a check of a fuzzer panics when it fails"
)]
fn can_be_kept(spec: &Spec) {
    let written = spec.to_json();
    let as_json = Spec::from_json(&written).expect("what was written is JSON");
    assert_eq!(*spec, as_json);
    let as_yaml = Spec::parse(&written).expect("what was written is YAML");
    assert_eq!(*spec, as_yaml);
    assert_eq!(written, as_yaml.to_json(), "each rewrite changes the file");

    let step = written.len().div_ceil(PREFIXES).max(1);
    // The longest ones are most likely to be accepted.
    let last = (1..=8).filter_map(|left| written.len().checked_sub(left));
    for end in (0..written.len()).step_by(step).chain(last) {
        let part = written.get(..end).unwrap_or_default();
        assert!(Spec::parse(part).is_err(), "{end} bytes are a spec");
        assert!(Spec::from_json(part).is_err(), "{end} bytes are a spec");
    }
}

#[expect(
    clippy::expect_used,
    reason = "a check of a fuzzer panics when it fails"
)]
fn check_version(spec: &Spec) {
    let needed = spec.needed_version();
    assert!(
        needed <= spec.version(),
        "its version is too old for its fields"
    );
    let most = spec.needs().map(|(version, _)| version).max();
    assert!(most.is_none_or(|most| most == needed));
    let lowered = spec.clone().with_version(needed);
    assert_eq!(
        lowered
            .expect("the version that it needs is enough")
            .version(),
        needed
    );
    for warning in spec.warnings() {
        assert!(!warning.field.is_empty());
        assert!(!warning.code().is_empty() && !warning.hint().is_empty());
        assert!(!warning.to_string().contains('\n'));
    }
}

fn check_error(bytes: &[u8], error: &SpecError) {
    is_helpful(error, error.code(), error.hint());
    let Some((line, column)) = error.position() else {
        return;
    };
    // YAML has more line breaks than newlines, and an error may be at the end.
    let text = String::from_utf8_lossy(bytes);
    let breaks = text.matches(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']);
    assert!((1..=breaks.count() + 2).contains(&line), "{error}");
    assert!((1..=text.chars().count() + 2).contains(&column), "{error}");
}
