//! `doctor` on the specs of claims: channels that do not exist, and many specs with one fault.

use serde_json::Value;

use super::host::{self, BOOT, CLAIM, Host, KUBELET, PLUGIN, SPEC, kubelet, spec};
use super::prepared::{Prepared, write_checkpoint};

const RELOADED: &str = "Character devices:\n234 nvidia-caps\n240 nvidia-caps-imex-channels\n";
const MANY: usize = 200;

fn params(host: &Host, count: u32) {
    let text = format!("ModifyDeviceFiles: 1\nImexChannelCount: {count}\n");
    host.write("proc/driver/nvidia/params", text);
}

/// The claim's record has this channel.
fn opened(host: &Host, channel: u32) {
    let claim = Prepared::new(CLAIM, "a-domain", channel);
    write_checkpoint(&host.at(PLUGIN), BOOT, &[claim]);
}

fn first(host: &Host, member: &str) -> String {
    let report = host.json("doctor --json", 1);
    let found = report.pointer(&format!("/findings/0/{member}"));
    found.and_then(Value::as_str).unwrap().to_owned()
}

#[test]
fn a_channel_that_the_driver_does_not_have_is_named() {
    let host = Host::healthy();
    let last = spec("0.5.0", 235)
        .replace("channel0", "channel2047")
        .replace(r#""minor":0"#, r#""minor":2047"#);
    opened(&host, 2047);
    host.write(SPEC, &last);
    host.out("doctor", 0);
    opened(&host, 2048);
    host.write(SPEC, last.replace("2047", "2048"));
    assert_eq!(first(&host, "id"), "cdi-spec-channel-beyond-count");
    assert!(first(&host, "evidence").contains("channel2048 is channel 2048"));
    // The pods' next claim opens the same channel: its ComputeDomain's.
    let fix = first(&host, "fix");
    assert!(fix.starts_with("configure more channels"), "{fix}");
    assert!(
        fix.contains("imex.channelCount to 2048 and recreate"),
        "{fix}"
    );
    params(&host, 4096);
    host.out("doctor", 0);
    // A spec made for a driver with more channels.
    params(&host, 2048);
    opened(&host, 0);
    host.write(SPEC, spec("0.5.0", 235));
    let other = last
        .replace("2047", "9999")
        .replace("k8s.compute-domain.nvidia.com", "a.b");
    host.write("etc/cdi/a.json", other);
    assert_eq!(first(&host, "subject"), "/etc/cdi/a.json");
    assert!(first(&host, "fix").starts_with("remove these channels"));
}

#[test]
fn a_driver_without_channels_is_reported_once() {
    let host = Host::healthy();
    params(&host, 0);
    let ids = host.ids(1);
    assert_eq!(ids.first().unwrap(), "imex-channels-disabled");
    assert!(!ids.contains(&"cdi-spec-channel-beyond-count".to_owned()));
}

#[test]
fn the_fix_of_a_stale_spec_depends_on_its_writer() {
    let host = Host::healthy();
    host.write("proc/devices", RELOADED);
    let fix = first(&host, "fix");
    assert!(fix.starts_with("restart the kubelet plugin"), "{fix}");
    host.write(SPEC, spec("0.5.0", 240));
    host.out("doctor", 0);
    let other = spec("0.5.0", 235).replace("k8s.compute-domain.nvidia.com", "a.b");
    host.write("etc/cdi/a.json", other);
    let fix = first(&host, "fix");
    let command = format!("`cdi-gen generate --root {}", host.at("").display());
    assert!(fix.contains(command.trim_end_matches('/')), "{fix}");
}

#[test]
fn a_wrong_host_node_is_not_blamed_on_the_plugin() {
    let host = Host::healthy();
    let fix_of = |id: &str| {
        let report = host.json("doctor --json", 1);
        let found = host::finding(&report, id).unwrap();
        host::text(found, "fix").to_owned()
    };
    // Its numbers are the driver's.
    host.write("dev/nvidia-caps-imex-channels/channel0", "");
    let fix = fix_of("cdi-spec-node-differs");
    assert!(fix.starts_with("remove the host's device node"), "{fix}");
    host.remove("dev/nvidia-caps-imex-channels");
    host.out("doctor", 0);
    // It has none.
    host.write(
        SPEC,
        spec("0.5.0", 235).replace(r#""type":"c""#, r#""type":"""#),
    );
    let fix = fix_of("cdi-spec-node-missing");
    assert!(fix.starts_with("restart the kubelet plugin"), "{fix}");
}

#[test]
fn one_fault_of_many_specs_is_one_screen_and_json_has_them_all() {
    let host = Host::healthy();
    let claims: Vec<String> = (0..MANY)
        .map(|n| CLAIM.replace("01", &format!("{n:02x}")))
        .collect();
    for (n, claim) in claims.iter().enumerate() {
        let channel = spec("0.5.0", 235)
            .replace("channel0", &format!("channel{n}"))
            .replace(r#""minor":0"#, &format!(r#""minor":{n}"#));
        host.write(&SPEC.replace(CLAIM, claim), channel.replace(CLAIM, claim));
    }
    host.write("proc/devices", RELOADED);
    let shown = host.out("doctor", 1);
    assert!(shown.lines().count() <= 40, "{shown}");
    for (id, more) in [
        ("cdi-spec-stale-major", MANY - 3),
        ("spec-without-claim", MANY - 4),
    ] {
        assert_eq!(shown.matches(&format!("[{id}]")).count(), 1, "{shown}");
        let more = format!(" and {more} more (--json lists all)\n");
        assert!(shown.contains(&more), "{shown}");
    }
    let counted = host
        .ids(1)
        .iter()
        .filter(|id| *id == "cdi-spec-stale-major")
        .count();
    assert_eq!(counted, MANY);

    let known: Vec<&str> = claims.iter().map(String::as_str).collect();
    host.write(KUBELET, kubelet(&known));
    let shown = host.out("doctor", 1);
    assert_eq!(
        shown.matches("[claim-unknown-to-plugin]").count(),
        1,
        "{shown}"
    );
}
