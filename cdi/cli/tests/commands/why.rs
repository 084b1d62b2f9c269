//! `cdi-gen why`: the fix for the most probable of several causes.

use std::fs;
use std::os::unix::fs::symlink;

use super::Place;

const NAME: &str = "example.com/sign=one";

fn spec(kind: &str) -> String {
    format!(
        r#"{{"cdiVersion":"0.3.0","kind":"{kind}","devices":[{{"name":"one","containerEdits":{{"env":["A=b"]}}}}]}}"#
    )
}

/// The last line of `why` for a device that does not resolve.
fn fix(place: &Place, name: &str) -> String {
    let printed = place.out(&format!("why {name} --root host"), 4);
    let last = printed.lines().last().unwrap();
    last.strip_prefix("  fix       ").unwrap().to_owned()
}

#[test]
fn a_file_that_defines_the_device_counts_more_than_one_that_might() {
    let place = Place::new();
    place.write("host/etc/cdi/sign.yml", &spec("example.com/sign"));
    let torn = spec("example.com/sign");
    place.write("host/etc/cdi/torn.json", torn.trim_end_matches('}'));
    assert!(fix(&place, NAME).starts_with("host/etc/cdi/sign.yml: rename the file"));
    // Unless it is only a copy.
    fs::rename(
        place.at("host/etc/cdi/sign.yml"),
        place.at("host/etc/cdi/torn.json.bak"),
    )
    .unwrap();
    assert!(fix(&place, NAME).starts_with("host/etc/cdi/torn.json: correct"));
    fs::remove_file(place.at("host/etc/cdi/torn.json")).unwrap();
    assert!(
        fix(&place, NAME).starts_with("host/etc/cdi/torn.json.bak: remove the backup copy or,")
    );
}

#[test]
fn a_directory_that_is_a_link_is_the_cause_unless_a_file_names_the_device() {
    let place = Place::new();
    fs::rename(place.at("host/etc/cdi"), place.at("host/etc/other")).unwrap();
    symlink("/nowhere/cdi", place.at("host/etc/cdi")).unwrap();
    // Another device of the kind must not hide it.
    place.write(
        "host/run/cdi/sign.json",
        &spec("example.com/sign").replace("one", "two"),
    );
    assert!(fix(&place, NAME).starts_with("host/etc/cdi: replace the link with a directory"));
}

#[test]
fn files_of_another_kind_are_not_to_blame() {
    let place = Place::new();
    let other = spec("example.com/signal");
    place.write("host/etc/cdi/torn.json", other.trim_end_matches('}'));
    place.write("host/etc/cdi/signal.yml", &other);
    let printed = place.out(&format!("why {NAME} --root host"), 4);
    assert!(
        !printed.contains("torn.json") && !printed.contains("signal.yml"),
        "{printed}"
    );
}

#[test]
fn a_broken_file_without_a_kind_is_not_to_blame() {
    let place = Place::new();
    place.write("host/etc/cdi/torn.json", r#"{"devices": [{"name": "one""#);
    let printed = place.out(&format!("why {NAME} --root host"), 4);
    assert!(!printed.contains("torn.json"), "{printed}");
}

#[test]
fn a_channel_that_is_spelt_differently_is_a_near_miss() {
    let place = Place::new();
    for name in ["channel-0", "channel0"] {
        let name = format!("nvidia.com/imex-channel={name}");
        let printed = place.out(&format!("why {name} --root host"), 4);
        assert!(
            printed.contains("near      nvidia.com/imex-channel=0 in "),
            "{printed}"
        );
        assert_eq!(
            fix(&place, &name),
            "write the name exactly as the CDI spec defines it"
        );
    }
}

#[test]
fn a_kind_with_only_all_says_so() {
    let place = Place::new();
    let text = spec("example.com/sign").replace("\"one\"", "\"all\"");
    place.write("host/etc/cdi/sign.json", &text);
    assert!(fix(&place, NAME).starts_with("only the device `all` is defined"));
}
