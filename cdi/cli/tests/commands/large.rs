//! A file that is too large for a spec is reported, and not read.

use std::fs::File;

use super::{Place, stderr, stdout};

const HUGE: &str = "host/etc/cdi/huge.json";
const LEN: u64 = 1 << 40;

/// A place with a sparse file that exceeds any machine's memory.
fn place() -> Place {
    let place = Place::new();
    File::create(place.at(HUGE)).unwrap().set_len(LEN).unwrap();
    place
}

#[test]
fn every_command_on_specs_names_the_file_its_size_the_limit_and_the_fix() {
    let place = place();
    let refused = format!("{HUGE} has {LEN} bytes; the limit is 1048576; find out which");
    let json_refused = format!("{HUGE} has {LEN} bytes; the limit is 1048576");
    for (command, code, says) in [
        ("list --root host", 1, &refused),
        ("why nvidia.com/gpu=7 --root host", 4, &refused),
        ("show nvidia.com/gpu=7 --root host", 4, &refused),
        ("validate --root host", 1, &json_refused),
        ("doctor --root host", 1, &json_refused.replace("host/", "/")),
    ] {
        let output = place.run(command);
        let both = stdout(&output) + &stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{command}: {both}");
        assert!(both.contains(says.as_str()), "{command}: {both}");
    }
}

#[test]
fn a_file_that_is_named_is_too_large_for_a_spec_from_one_byte_on() {
    let place = place();
    let why = format!(
        "{HUGE}: the file is larger than 1 MiB ({LEN} bytes); device specs are not that large"
    );
    for command in ["show", "validate"] {
        let message = place.err(&format!("{command} {HUGE}"), 3);
        assert!(message.contains(&why), "{command}: {message}");
    }
    let just_fits = File::create(place.at("spec.json")).unwrap();
    just_fits.set_len(1 << 20).unwrap();
    assert!(place.err("show spec.json", 3).contains("not a valid CDI"));
    just_fits.set_len((1 << 20) + 1).unwrap();
    for command in ["show spec.json", "validate spec.json"] {
        let message = place.err(command, 3);
        let why = "spec.json: the file is larger than 1 MiB (1048577 bytes)";
        assert!(message.contains(why), "{command}: {message}");
    }
}

#[test]
fn other_devices_resolve_beside_it() {
    let place = place();
    let printed = place.out("why nvidia.com/imex-channel=0 --root host", 0);
    assert!(printed.contains(" resolves to "), "{printed}");
    place.out(
        "generate --root host --channels 3 --output host/run/cdi/job-7.json",
        0,
    );
}
