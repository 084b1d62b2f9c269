//! `cdi-gen validate`, beyond what COMMANDS.md shows.

use std::fs;

use super::{Place, stderr, stdout};

fn spec(kind: &str, version: &str) -> String {
    format!(
        r#"{{"cdiVersion":"{version}","kind":"{kind}","devices":[{{"name":"one","containerEdits":{{"env":["A=b"]}}}}]}}"#
    )
}

#[test]
fn a_kind_of_one_letter_is_an_error_as_runtimes_panic_on_it() {
    let place = Place::new();
    for kind in ["a/sign", "example.com/s"] {
        place.write("x.json", &spec(kind, "0.3.0"));
        let printed = place.out("validate x.json --level error", 1);
        assert!(
            printed.contains("panics on such a kind and crashes a runtime")
                && printed.contains("[cdi-kind-one-letter]"),
            "{printed}"
        );
        let printed = place.out("validate x.json --for containerd-2.2.1 --level error", 1);
        assert!(
            printed.contains("panics on such a kind and crashes containerd-2.2.1"),
            "{printed}"
        );
    }
    let message = place.err("generate --channels 0 --major 7 --kind n/channel", 2);
    assert!(
        message.contains("n/channel has a one-letter vendor or class"),
        "{message}"
    );
}

#[test]
fn a_check_of_no_files_is_reported() {
    let place = Place::new();
    let message = place.err("validate --root bundle", 0);
    assert_eq!(
        message,
        "cdi-gen: no CDI spec found in bundle/etc/cdi (does not exist), bundle/var/run/cdi (does not \
         exist): nothing was checked\n"
    );
    fs::create_dir(place.at("empty")).unwrap();
    assert!(
        place
            .err("validate empty", 3)
            .contains("no CDI spec found in empty: nothing was checked; ")
    );
}

#[test]
fn a_directory_that_was_named_and_does_not_exist_is_an_error() {
    let place = Place::new();
    for command in ["validate", "list"] {
        let output = place.run(&format!("{command} --root host --spec-dir /etc/cid"));
        assert_eq!(output.status.code(), Some(3), "{command}");
        assert!(
            stderr(&output).contains("cannot list the spec directory host/etc/cid: No such file"),
            "{}",
            stderr(&output)
        );
    }
    place.out("list --root host --spec-dir /var/run/cdi", 0);
}

#[test]
fn files_of_one_directory_are_checked_as_if_they_were_loaded_together() {
    let place = Place::new();
    fs::create_dir(place.at("other")).unwrap();
    for file in ["a.json", "b.json", "other/c.json"] {
        place.write(file, &spec("example.com/sign", "0.3.0"));
    }
    let printed = place.out("validate a.json b.json other/c.json", 1);
    assert!(printed.contains("a.json: error: CDI device example.com/sign=one is defined in more"));
    assert!(printed.contains("b.json: error: ") && printed.contains("[cdi-device-conflict]"));
    assert!(printed.contains("other/c.json: OK\n"), "{printed}");
    place.out("validate a.json ./a.json", 0);
}

#[test]
fn a_fix_says_what_to_write() {
    let place = Place::new();
    let low = spec("example.com/sign", "0.3.0").replace("\"one\"", "\"1\"");
    place.write("low.json", &low);
    place.write("new.json", &spec("example.com/sign", "9.0.0"));
    let twice = spec("example.com/sign", "0.3.0");
    let twice = twice.replace("\"name\"", "\"name\":\"two\",\"name\"");
    place.write("twice.json", &twice);
    for (file, fix) in [
        (
            "low.json",
            "; raise cdiVersion to 0.5.0 [cdi-version-too-low]",
        ),
        (
            "new.json",
            "that supports every field in use [cdi-version-unknown]",
        ),
        ("twice.json", "keep only one of the two fields"),
        (
            "bundle/config.json",
            "this file is an OCI config (ociVersion is set), not a CDI spec",
        ),
    ] {
        let printed = place.out(&format!("validate {file}"), 1);
        assert!(printed.contains(fix), "{printed}");
    }
}

#[test]
fn many_devices_of_a_file_are_listed_in_time() {
    let place = Place::new();
    place.write("host/proc/driver/nvidia/params", "ImexChannelCount: 4096\n");
    place.out(
        "generate --root host --channels all --output host/run/cdi/many.json",
        0,
    );
    // Only a limit for failure: a search of the whole spec for each device takes minutes.
    let output = std::process::Command::new("timeout")
        .args(["60", env!("CARGO_BIN_EXE_cdi-gen")])
        .args(["list", "--root", "host", "--spec-dir", "/var/run/cdi"])
        .current_dir(place.at("."))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output).lines().count(), 4099);
}

#[test]
fn show_refuses_an_oci_config() {
    let place = Place::new();
    let message = place.err("show bundle/config.json", 3);
    assert!(
        message.contains(
            "config.json is not a CDI spec but an OCI config (ociVersion is set); pass a"
        ),
        "{message}"
    );
}

#[test]
fn every_error_of_a_spec_is_reported_in_one_run() {
    let place = Place::new();
    let spec = spec("example.com/sign", "0.3.0");
    let spec = spec.replace(
        r#""env":["A=b"]"#,
        r#""env":["A"],"hooks":[{"hookName":"nope","path":"/x"}]"#,
    );
    place.write("x.json", &spec);
    fs::create_dir(place.at("dir")).unwrap();
    place.write("dir/x.json", &spec);
    for words in ["validate x.json", "validate dir", "validate --spec-dir dir"] {
        let printed = place.out(words, 1);
        let fields: Vec<&str> = printed
            .lines()
            .filter(|line| line.contains("rror: "))
            .collect();
        assert_eq!(fields.len(), 2, "{words}: {printed}");
        for field in ["env[0]", "hooks[0]"] {
            assert!(printed.contains(field), "{words}: {printed}");
        }
    }
}
