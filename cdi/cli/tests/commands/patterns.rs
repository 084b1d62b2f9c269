//! Devices by kinds and patterns, as `list` takes them.

use serde_json::Value;

use super::{Place, stderr, stdout};

/// The names in the table.
fn listed(place: &Place, words: &str, code: i32) -> Vec<String> {
    let table = place.out(words, code);
    let rows = table.lines().skip(1);
    rows.map(|row| row.split_whitespace().next().unwrap().to_owned())
        .collect()
}

#[test]
fn a_list_is_of_the_devices_that_are_named() {
    let place = Place::new();
    let gpus = ["nvidia.com/gpu=0", "nvidia.com/gpu=all"];
    for pattern in [
        "nvidia.com/gpu",
        "nvidia.com/gpu=*",
        "gpu=*",
        "gpu",
        "*.com/g?u=[0-9a]*",
    ] {
        assert_eq!(
            listed(&place, &format!("list {pattern} --root host"), 1),
            gpus
        );
    }
    let one = listed(&place, "list nvidia.com/gpu=0 --root host", 1);
    assert_eq!(one, gpus[..1]);
    // Shadowed and conflicting ones, too, and each device once.
    let two = listed(&place, "list lamp=desk *=desk imex-channel --root host", 1);
    assert_eq!(
        two,
        [
            "example.com/lamp=desk",
            "example.com/lamp=desk",
            "nvidia.com/imex-channel=0",
            "nvidia.com/imex-channel=0"
        ]
    );
    let all = place.out("list --root host", 1);
    assert_eq!(place.out("list * --root host", 1), all);
    let json: Value =
        serde_json::from_str(&place.out("list --json gpu=all --root host", 1)).unwrap();
    assert_eq!(json["devices"].as_array().unwrap().len(), 1);
}

#[test]
fn an_argument_without_a_match_is_an_error_with_the_alternatives() {
    let place = Place::new();
    for (words, hint) in [
        ("mig=*", "; existing kinds are example.com/lamp, "),
        ("channel-0", "; existing kinds are example.com/lamp, "),
        ("desk", "; use example.com/lamp=desk"),
        (
            "nvidia.com/gpu=7",
            "; run `cdi-gen why nvidia.com/gpu=7` for the reason",
        ),
    ] {
        let output = place.run(&format!("list {words} --root host"));
        assert_eq!(output.status.code(), Some(4), "{words}");
        assert_eq!(stdout(&output).lines().count(), 1, "{words}");
        let message = stderr(&output);
        let expected = format!("cdi-gen: no CDI device matches {words}{hint}");
        assert!(message.contains(&expected), "{message}");
    }
    let output = place.run("list lamp=floor mig=* gp --root host");
    let message = stderr(&output);
    assert!(
        message.contains("cdi-gen: no CDI device matches mig=*, gp; "),
        "{message}"
    );
    let message = place.err("list gpu= --root host", 2);
    assert!(
        message.contains("kind (vendor/class) or pattern"),
        "{message}"
    );
}

#[test]
fn show_suggests_the_full_name_for_a_short_one() {
    let place = Place::new();
    for (short, code, fix) in [
        ("floor", 4, "use example.com/lamp=floor"),
        (
            "nvidia.com/gpu",
            4,
            "use nvidia.com/gpu=0 or nvidia.com/gpu=all",
        ),
        ("gpu=0", 4, "use nvidia.com/gpu=0"),
        (
            "nvidia.com/gpu=*",
            4,
            "use nvidia.com/gpu=0 or nvidia.com/gpu=all",
        ),
        (
            "gpu=7",
            4,
            "run `cdi-gen list` to see the device names; for a file, check the path",
        ),
        (
            "channel-0",
            3,
            "run `cdi-gen list` to see the device names; for a file, check the path",
        ),
    ] {
        let message = place.err(&format!("show {short} --root host"), code);
        assert_eq!(
            message,
            format!(
                "cdi-gen: {short} is neither a file nor the full name of a device \
                 (vendor/class=device); {fix}\n"
            )
        );
    }
    let message = place.err("show ./gpu=0 --root host", 3);
    assert!(
        message.starts_with("cdi-gen: cannot read ./gpu=0: "),
        "{message}"
    );
    place.write("channel-0", "{");
    assert!(
        place
            .err("show channel-0 --root host", 3)
            .contains("is not a valid CDI spec")
    );
}
