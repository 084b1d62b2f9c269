use imex_cdi::{Spec, SpecError};

use crate::error::is_helpful;

/// Of a long spec, so many prefixes are tried.
const PREFIXES: usize = 40;

/// A spec that was read is written, and read back as the same, by a reader of
/// YAML and by one of JSON; no part of what is written is a spec; JSON is read
/// as the YAML that it is; and a text that is none says where.
///
/// # Panics
///
/// If one of that does not hold.
#[expect(clippy::panic, reason = "a check of a fuzzer panics when it fails")]
pub fn spec(bytes: &[u8]) {
    let read = Spec::parse(bytes);
    match (&read, Spec::parse_all(bytes)) {
        (Ok(spec), Ok(again)) => assert_eq!(*spec, again),
        (Err(first), Err(all)) => {
            let told: Vec<String> = all.iter().map(ToString::to_string).collect();
            assert_eq!(told.first(), Some(&first.to_string()));
            for error in &all {
                is_honest(bytes, error);
            }
        }
        (one, other) => panic!("one reading fails: {one:?}, {other:?}"),
    }
    if bytes.first() == Some(&b'{') {
        json_is_yaml(bytes, &read);
    }
    if let Ok(spec) = read {
        can_be_kept(&spec);
        says_what_it_needs(&spec);
    }
}

/// Behind a comment no reader takes a text for JSON.
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
    // The last ones are the likeliest to be taken for the whole.
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
fn says_what_it_needs(spec: &Spec) {
    let needed = spec.needed_version();
    assert!(needed <= spec.version(), "it is too old for what it has");
    let most = spec.needs().map(|(version, _)| version).max();
    assert!(most.is_none_or(|most| most == needed));
    let lowered = spec.clone().with_version(needed);
    assert_eq!(
        lowered
            .expect("the version that it needs will do")
            .version(),
        needed
    );
    for warning in spec.warnings() {
        assert!(!warning.field.is_empty());
        assert!(!warning.code().is_empty() && !warning.hint().is_empty());
        assert!(!warning.to_string().contains('\n'));
    }
}

fn is_honest(bytes: &[u8], error: &SpecError) {
    is_helpful(error, error.code(), error.hint());
    let Some((line, column)) = error.position() else {
        return;
    };
    // YAML breaks lines at more than newlines, and a fault may be at the end.
    let text = String::from_utf8_lossy(bytes);
    let breaks = text.matches(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']);
    assert!((1..=breaks.count() + 2).contains(&line), "{error}");
    assert!((1..=text.chars().count() + 2).contains(&column), "{error}");
}
