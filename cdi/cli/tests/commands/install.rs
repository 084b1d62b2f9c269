//! `generate --install` on a file that is there already.

use imex_cdi::Spec;

use super::{Place, stderr};

fn spec(text: &str) -> Spec {
    Spec::parse(text.as_bytes()).unwrap()
}

#[test]
fn an_installed_spec_gets_devices_in_addition_to_those_that_it_has() {
    let place = Place::new();
    let file = "host/run/cdi/nvidia.com-imex-channel_j.json";
    let install = "generate --root host --install --id j";
    place.out(&format!("{install} --channels 3-5"), 0);
    // What a person added for all devices, and to one of them.
    let text = place.read(file);
    let text = text.replacen(
        r#""devices""#,
        r#""annotations":{"by":"hand"},"devices""#,
        1,
    );
    let text = text.replacen("0.3.0", "0.6.0", 1);
    let text = text.replacen("\"permissions\":\"rw\"", "\"permissions\":\"r\"", 1);
    place.write(file, &text.replacen("235", "195", 1));

    let more = place.run(&format!("{install} --channels 4,7"));
    assert_eq!(more.status.code(), Some(0), "{}", stderr(&more));
    let message = stderr(&more);
    assert_eq!(
        message,
        format!(
            "cdi-gen: {file} still defines nvidia.com/imex-channel=channel-3 (and 1 more like it), \
             as before; channel-3 has another major than the channels that are written now: name \
             it, too, or drop it with --replace\n"
        )
    );
    let merged = spec(&place.read(file));
    let names = merged.devices().iter().map(|device| device.name.as_str());
    let names: Vec<&str> = names.collect();
    assert_eq!(names, ["channel-3", "channel-4", "channel-5", "channel-7"]);
    assert!(place.read(file).contains(r#""by":"hand""#));
    let majors = merged
        .devices()
        .iter()
        .map(|it| it.container_edits.device_nodes[0].major);
    assert!(majors.eq([195, 235, 235, 235].map(Some)));

    let all = place.run(&format!("{install} --channels 3-5,7"));
    assert_eq!(stderr(&all), "");
    let majors = spec(&place.read(file));
    let mut majors = majors
        .devices()
        .iter()
        .map(|it| it.container_edits.device_nodes[0].major);
    assert!(majors.all(|major| major == Some(235)));
    place.run(&format!("{install} --channels 9 --replace"));
    assert_eq!(spec(&place.read(file)).devices().len(), 1);
}

#[test]
fn an_installed_file_that_cannot_get_devices_is_left_as_it_is() {
    let place = Place::new();
    let file = "host/run/cdi/nvidia.com-imex-channel_j.json";
    let install = "generate --root host --channels 0 --install --id j";
    let other = r#"{"cdiVersion":"0.3.0","kind":"a.b/cc","devices":[{"name":"x","containerEdits":{"env":["A=b"]}}]}"#;
    for (text, why) in [
        ("{", "cannot get devices in addition to those that it has"),
        (
            other,
            "defines devices of a.b/cc, not of the kind of its name",
        ),
    ] {
        place.write(file, text);
        let message = place.err(install, 1);
        assert!(
            message.contains(why) && message.contains("--replace"),
            "{message}"
        );
        assert_eq!(place.read(file), text);
    }
    place.out(&format!("{install} --replace"), 0);
    assert_eq!(spec(&place.read(file)).devices().len(), 1);
}

#[test]
fn no_file_gets_more_than_these_commands_read() {
    let place = Place::new();
    let file = "host/run/cdi/nvidia.com-imex-channel_j.json";
    let generate = "generate --root host --count 8192";
    place.out(&format!("{generate} --install --id j --channels 0-3999"), 0);
    let before = place.read(file);
    for (options, channels) in [
        ("--install --id j", "4000-7999"),
        ("--output new.yaml --format yaml", "0-4999"),
        ("", "0-4999"),
    ] {
        let message = place.err(&format!("{generate} {options} --channels {channels}"), 2);
        assert!(message.contains("is longer than 1048576"), "{message}");
    }
    assert_eq!(place.read(file), before);
    assert!(!place.at("new.yaml").exists());
}
