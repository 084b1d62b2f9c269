//! Why a name does or does not resolve.

use std::fs::File;
use std::os::unix::fs::symlink;

use imex_cdi::{
    DirState, Evidence, Explanation, IgnoredFile, IgnoredReason, LoadError, MAX_SPEC_LEN, Registry,
    ResolveError, SpecVersion, Suggestion, Verdict,
};

use crate::host::{Host, KIND, lamp, spec};

/// Each candidate as `file: code`.
fn verdicts(host: &Host, explained: &Explanation<'_>) -> Vec<String> {
    let line = |(file, code): (_, &str)| format!("{}: {code}", host.local(file));
    let candidates = explained.candidates.iter();
    let candidates = candidates.map(|c| (c.file.path.as_path(), c.verdict.code()));
    candidates.map(line).collect()
}

/// Each ignored file with its reason, and whether it is a spec that defines
/// the device.
fn ignored(host: &Host, explained: &Explanation<'_>) -> Vec<(String, IgnoredReason, bool)> {
    let files = explained.ignored.iter();
    files
        .map(
            |IgnoredFile {
                 path,
                 reason,
                 defines,
                 ..
             }| (host.local(path), *reason, *defines),
        )
        .collect()
}

#[test]
fn the_winner_and_the_files_that_it_shadows_are_named() {
    let host = Host::new();
    host.spec("low/a.json", &["red"]);
    host.spec("low/other.json", &["green", "blue"]);
    host.spec("high/b.json", &["red"]);
    let registry = host.load();
    let explained = registry.explain(&lamp("red"));
    assert_eq!(
        verdicts(&host, &explained),
        [
            "low/a.json: cdi-device-shadowed",
            "high/b.json: cdi-device-wins"
        ]
    );
    let Verdict::Shadowed { by } = explained.candidates[0].verdict else {
        panic!("{explained:?}");
    };
    assert_eq!(host.local(&by.path), "high/b.json");
    assert_eq!(explained.resolution.unwrap().file.path, by.path);
    assert_eq!(explained.others_of_kind, 2);
}

#[test]
fn files_in_conflict_name_each_other_and_the_files_that_they_void() {
    let host = Host::new();
    host.spec("low/a.json", &["red"]);
    for file in ["high/b.json", "high/c.json", "high/d.json"] {
        host.spec(file, &["red"]);
    }
    let registry = host.load();
    let explained = registry.explain(&lamp("red"));
    assert_eq!(
        verdicts(&host, &explained),
        [
            "low/a.json: cdi-device-voided",
            "high/b.json: cdi-device-conflict",
            "high/c.json: cdi-device-conflict",
            "high/d.json: cdi-device-conflict",
        ]
    );
    let Verdict::Voided { by } = &explained.candidates[0].verdict else {
        panic!("{explained:?}");
    };
    assert_eq!(by.len(), 3);
    let Verdict::Conflicts { with } = &explained.candidates[2].verdict else {
        panic!("{explained:?}");
    };
    let with: Vec<_> = with.iter().map(|file| host.local(&file.path)).collect();
    assert_eq!(with, ["high/b.json", "high/d.json"]);
}

#[test]
fn a_refused_file_is_a_candidate_by_its_text_its_name_or_if_it_cannot_be_read() {
    let host = Host::new();
    let torn = spec(KIND, &["red"]);
    host.write("high/torn.json", &torn[..torn.len() - 1]);
    host.write("high/example.com-lamp_1.yaml", "");
    host.write("high/example.com-lamppost.yaml", "");
    host.write("high/unrelated.json", "{\"reddish\"");
    let other = spec("example.com/signal", &["red"]);
    host.write("high/example.com-lamp_2.json", &other[..other.len() - 1]);
    symlink("nowhere", host.path("high/link.json")).unwrap();
    let registry = host.load();
    let explained = registry.explain(&lamp("red"));
    let found: Vec<_> = explained
        .candidates
        .iter()
        .map(|candidate| match candidate.verdict {
            Verdict::Refused { evidence, .. } => (host.local(&candidate.file.path), evidence),
            _ => panic!("{candidate:?}"),
        })
        .collect();
    let expected = [
        ("high/example.com-lamp_1.yaml", Evidence::FileName),
        ("high/link.json", Evidence::Unreadable),
        ("high/torn.json", Evidence::Text),
    ];
    assert_eq!(found, expected.map(|(file, why)| (file.to_owned(), why)));
    assert!(matches!(
        explained.resolution,
        Err(ResolveError::Unknown { .. })
    ));
    assert!(
        explained
            .candidates
            .iter()
            .all(|c| c.verdict.hint().is_some())
    );
}

#[test]
fn an_unreadable_file_is_no_candidate_for_a_device_that_resolves() {
    let host = Host::new();
    host.spec("low/a.json", &["red"]);
    let torn = spec(KIND, &["red"]);
    host.write("high/torn.json", &torn[..torn.len() - 1]);
    symlink("nowhere", host.path("high/link.json")).unwrap();
    symlink("loop.json", host.path("high/loop.json")).unwrap();
    let registry = host.load();
    let codes = |name| -> Vec<_> {
        let candidates = registry.explain(&lamp(name)).candidates.into_iter();
        candidates
            .map(|candidate| candidate.verdict.code())
            .collect()
    };
    assert_eq!(codes("red"), ["cdi-device-wins", "cdi-spec-malformed"]);
    assert_eq!(codes("blue"), ["cdi-spec-unreadable"; 2]);
    let looped = registry
        .files()
        .iter()
        .filter_map(|file| file.spec.as_ref().err());
    assert!(
        looped
            .map(LoadError::hint)
            .any(|hint| hint.contains("points to itself"))
    );
}

#[test]
fn a_device_of_many_files_is_suggested_once() {
    let host = Host::new();
    for file in ["low/a.json", "high/a.json"] {
        host.write(file, spec("example.com/signal", &["red"]));
    }
    let registry = host.load();
    let explained = registry.explain(&lamp("red"));
    let [suggestion] = explained.suggestions.as_slice() else {
        panic!("{:?}", explained.suggestions);
    };
    assert_eq!(host.local(&suggestion.device().file.path), "high/a.json");
}

#[test]
fn a_spec_of_a_version_that_is_unknown_or_too_low_is_refused_for_it() {
    let host = Host::new();
    let text = spec("example.com/lamp.v2", &["red"]);
    host.write("high/low.json", text.replace("0.6.0", "0.5.0"));
    host.write("high/new.json", text.replace("0.6.0", "9.9.9"));
    let registry = host.load();
    let explained = registry.explain(&"example.com/lamp.v2=red".parse().unwrap());
    assert_eq!(explained.candidates.len(), 2);
    assert_eq!(
        explained.candidates[0].verdict.code(),
        "cdi-version-too-low"
    );
    let Verdict::Refused { error, .. } = explained.candidates[1].verdict else {
        panic!("{explained:?}");
    };
    let reason = std::iter::successors(Some(error as &dyn std::error::Error), |e| e.source());
    let reason: Vec<String> = reason.map(ToString::to_string).collect();
    assert!(
        reason.iter().any(|text| text.contains("9.9.9")),
        "{reason:?}"
    );
}

#[test]
fn a_spec_that_declares_a_newer_version_than_it_needs_says_so() {
    let host = Host::new();
    host.spec("low/a.json", &["red"]);
    let minimal = spec(KIND, &["red"]).replace("0.6.0", "0.3.0");
    host.write("high/b.json", minimal);
    let registry = host.load();
    let explained = registry.explain(&lamp("red"));
    let newer = explained.candidates.iter().map(|candidate| {
        let spec = candidate.file.spec.as_ref().unwrap();
        let (declared, needed) = (spec.version(), spec.needed_version());
        (declared > needed).then_some((declared, needed))
    });
    let newer: Vec<_> = newer.collect();
    let versions = (SpecVersion::V0_6_0, SpecVersion::V0_3_0);
    assert_eq!(newer, [Some(versions), None]);
}

#[test]
fn devices_that_differ_in_kind_only_or_in_case_only_are_suggested() {
    let host = Host::new();
    host.spec("low/a.json", &["Red", "green"]);
    host.write("low/b.json", spec("example.com/signal", &["red", "Red"]));
    host.write("low/c.json", spec("Example.com/lamp", &["red"]));
    let registry = host.load();
    let explained = registry.explain(&lamp("red"));
    let near: Vec<_> = explained
        .suggestions
        .iter()
        .map(|near| (near.code(), near.device().name().to_string()))
        .collect();
    let expected = [
        ("cdi-device-other-case", "Example.com/lamp=red"),
        ("cdi-device-other-case", "example.com/lamp=Red"),
        ("cdi-device-other-kind", "example.com/signal=red"),
    ];
    assert_eq!(near, expected.map(|(code, name)| (code, name.to_owned())));
    assert!(matches!(explained.suggestions[0], Suggestion::OtherCase(_)));
    assert!(explained.candidates.is_empty());
}

#[test]
fn files_that_no_runtime_reads_are_found_if_the_device_is_in_them() {
    let host = Host::new();
    for file in [
        "a.yml",
        "b.YAML",
        "sub/c.json",
        "sub/sub/d.yaml",
        ".e.1.tmp",
        "spec.2.tmp",
    ] {
        host.spec(&format!("high/{file}"), &["red"]);
        host.spec(&format!("high/{file}-not"), &["reddish"]);
    }
    host.write("high/notes", "red, kind: example.com/lamp, is in a.yml");
    host.write("high/other.yml", spec("example.com/signal", &["red"]));
    host.spec("high/f.json.bak", &["red"]);
    host.spec("high/g.yaml~", &["red"]);
    host.spec("low/read.json", &["red"]);
    nix::unistd::mkfifo(&host.path("high/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let registry = host.load();
    let explained = registry.explain(&lamp("red"));
    let expected = [
        (".e.1.tmp", IgnoredReason::Temporary, true),
        ("a.yml", IgnoredReason::Extension, true),
        ("b.YAML", IgnoredReason::Extension, true),
        ("f.json.bak", IgnoredReason::Leftover, true),
        ("g.yaml~", IgnoredReason::Leftover, true),
        ("notes", IgnoredReason::Extension, false),
        ("spec.2.tmp", IgnoredReason::Temporary, true),
        ("sub/c.json", IgnoredReason::Subdirectory, true),
        ("sub/sub/d.yaml", IgnoredReason::Subdirectory, true),
    ];
    let expected = expected.map(|(file, why, defines)| (format!("high/{file}"), why, defines));
    assert_eq!(ignored(&host, &explained), expected);
    assert!(!explained.ignored_truncated);
}

#[test]
fn the_search_for_ignored_files_is_limited_and_says_so() {
    let host = Host::new();
    for file in 0..5000 {
        host.write(&format!("high/{file}.yml"), "kind: example.com/lamp red");
    }
    let registry = host.load();
    let explained = registry.explain(&lamp("red"));
    assert!(explained.ignored_truncated);
    assert_eq!(explained.ignored.len(), 4096);
}

#[test]
fn the_search_for_ignored_files_ends_after_16_mib_of_text() {
    let host = Host::new();
    for file in ["a.yml", "c.yml"] {
        host.write(&format!("high/{file}"), "kind: example.com/lamp red");
    }
    for number in 0..16 {
        let long = File::create(host.path(&format!("high/b{number:02}.yml"))).unwrap();
        long.set_len(MAX_SPEC_LEN).unwrap();
    }
    let registry = host.load();
    let explained = registry.explain(&lamp("red"));
    assert!(explained.ignored_truncated);
    let found = ignored(&host, &explained);
    assert_eq!(
        found,
        [("high/a.yml".to_owned(), IgnoredReason::Extension, false)]
    );
}

#[test]
fn directories_that_were_not_read_are_named_and_a_linked_one_is_searched() {
    let host = Host::new();
    host.spec("target/a.json", &["red"]);
    symlink("target", host.path("link")).unwrap();
    let registry = Registry::load(&[host.path("never"), host.path("link"), host.path("low")]);
    let explained = registry.explain(&lamp("red"));
    let states: Vec<_> = explained.unread_dirs.iter().map(|dir| &dir.state).collect();
    assert!(matches!(
        states[..],
        [DirState::Absent, DirState::Skipped(_)]
    ));
    assert_eq!(
        ignored(&host, &explained),
        [(
            "link/a.json".to_owned(),
            IgnoredReason::LinkedDirectory,
            true
        )]
    );
}
