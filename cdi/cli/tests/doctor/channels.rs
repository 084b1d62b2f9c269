//! Domains and their channels on a node, in `doctor`, `list` and `checkpoint show`.

use serde_json::Value;

use super::host::{self, BOOT, Host, KUBELET, PLUGIN, SPEC, kubelet, text};
use super::prepared::{Prepared, write_checkpoint};
use super::{stderr, stdout};

const CLAIMS: [&str; 3] = [
    "11111111-aaaa-4bbb-8ccc-000000000001",
    "22222222-aaaa-4bbb-8ccc-000000000002",
    "33333333-aaaa-4bbb-8ccc-000000000003",
];
const DOMAIN_A: &str = "aaaaaaaa-1234-4567-89ab-0123456789ab";
const DOMAIN_B: &str = "bbbbbbbb-1234-4567-89ab-0123456789ab";

fn spec_path(uid: &str) -> String {
    SPEC.replace(CLAIMS[0], uid)
}

/// Its spec, of the driver's major.
fn spec(claim: &Prepared) -> String {
    let channel = claim.channel;
    host::spec("0.5.0", 235)
        .replace(CLAIMS[0], &claim.uid)
        .replace("channel0", &format!("channel{channel}"))
        .replace("channel-0", &format!("channel-{channel}"))
        .replace(r#""minor":0"#, &format!(r#""minor":{channel}"#))
}

/// Two claims of one domain and one of another.
fn claims() -> [Prepared; 3] {
    [
        Prepared::new(CLAIMS[0], DOMAIN_A, 1),
        Prepared::new(CLAIMS[1], DOMAIN_B, 2),
        Prepared::new(CLAIMS[2], DOMAIN_A, 1),
    ]
}

/// A healthy host on which these claims are prepared.
pub(crate) fn host(claims: &[Prepared]) -> Host {
    let host = Host::healthy();
    host.remove(SPEC);
    for claim in claims {
        host.write(&spec_path(&claim.uid), spec(claim));
    }
    record(&host, claims);
    host
}

/// The records of these claims, and kubelet's of them.
fn record(host: &Host, claims: &[Prepared]) {
    write_checkpoint(&host.at(PLUGIN), BOOT, claims);
    let uids: Vec<&str> = claims.iter().map(|claim| claim.uid.as_str()).collect();
    host.write(KUBELET, kubelet(&uids));
}

/// Channel and domain in the row of the claim's device in `list`.
fn listed(table: &str, uid: &str) -> [String; 2] {
    let row = table
        .lines()
        .find(|line| line.contains(&format!("={uid}-")));
    let cells: Vec<&str> = row
        .unwrap()
        .split("  ")
        .map(str::trim)
        .filter(|cell| !cell.is_empty())
        .collect();
    [2, 3].map(|column| cells.get(column).unwrap().to_string())
}

#[test]
fn each_claim_is_shown_with_its_channel_and_domain() {
    let host = host(&claims());
    let table = host.out("list", 0);
    let report = host.json("list --json", 0);
    assert_eq!(report.get("checkpoint").unwrap(), "read");
    for claim in claims() {
        let (channel, domain) = (claim.channel.to_string(), claim.domain.clone());
        assert_eq!(listed(&table, &claim.uid), [channel, domain], "{table}");
        let devices = report.get("devices").and_then(Value::as_array).unwrap();
        let device = devices
            .iter()
            .find(|it| it.pointer("/claim/uid").unwrap() == &claim.uid);
        let device = device.unwrap();
        let at = |pointer| device.pointer(pointer).unwrap();
        assert_eq!(at("/claim/channels/0/channel"), claim.channel);
        assert_eq!(at("/claim/channels/0/computeDomain"), &claim.domain);
        assert_eq!(at("/nodes/0/channel"), claim.channel);
    }

    let healthy = host.out("doctor", 0);
    let summary = "3 known to kubelet; 2 domains on channels 1-2\n";
    assert!(healthy.contains(summary), "{healthy}");
    let file = host.at(PLUGIN).join("checkpoint.json");
    let shown = std::process::Command::new(env!("CARGO_BIN_EXE_cdi-gen"))
        .args(["checkpoint", "show"])
        .arg(file)
        .output()
        .unwrap();
    let cells = format!("channel-0  2        {DOMAIN_B}  node-a");
    assert!(stdout(&shown).contains(&cells), "{}", stdout(&shown));
}

#[test]
fn two_domains_on_one_channel_are_found() {
    let mut claims = claims();
    claims[1].channel = 1;
    let host = host(&claims);
    let report = host.json("doctor --json", 1);
    let found = host::finding(&report, "channel-of-two-owners").unwrap();
    assert_eq!(text(found, "severity"), "error");
    assert_eq!(text(found, "subject"), "channel 1");
    for named in [CLAIMS[0], CLAIMS[1], DOMAIN_A, DOMAIN_B] {
        assert!(text(found, "evidence").contains(named), "{found}");
    }
    // After a reboot, the records no longer count.
    host.write("proc/sys/kernel/random/boot_id", "another");
    let ids = host.ids(1);
    assert!(
        !ids.contains(&"channel-of-two-owners".to_owned()),
        "{ids:?}"
    );
}

#[test]
fn a_spec_that_opens_another_channel_than_recorded_is_found_and_shown() {
    let host = host(&claims());
    let edited = Prepared::new(CLAIMS[1], DOMAIN_B, 1);
    host.write(&spec_path(CLAIMS[1]), spec(&edited));
    assert_eq!(host.ids(1).first().unwrap(), "spec-of-another-channel");
    let report = host.json("doctor --json", 1);
    let found = host::finding(&report, "spec-of-another-channel").unwrap();
    assert_eq!(text(found, "subject"), format!("/{}", spec_path(CLAIMS[1])));
    let [channel, domain] = listed(&host.out("list", 0), CLAIMS[1]);
    assert_eq!([channel.as_str(), &domain], ["1 (recorded 2)", DOMAIN_B]);
}

#[test]
fn a_list_has_what_it_can_read_of_the_checkpoint() {
    let host = host(&claims());
    let path = format!("{PLUGIN}/checkpoint.json");
    let whole = std::fs::read_to_string(host.at(&path)).unwrap();
    // The checksum of the claims with names does not match.
    let damaged = whole.replace("worker-1", "worker-X");
    for (content, state, domain, message) in [
        (whole.as_str(), "read", DOMAIN_A, ""),
        (&damaged, "damaged", DOMAIN_A, "Domains may be missing"),
        ("", "damaged", "-", "Domains may be missing"),
    ] {
        host.write(&path, content);
        let output = host.run("list");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let [channel, shown] = listed(&stdout(&output), CLAIMS[0]);
        assert_eq!([channel.as_str(), &shown], ["1", domain], "{state}");
        let messages = stderr(&output);
        assert!(messages.contains(message), "{messages}");
        assert_eq!(messages.is_empty(), message.is_empty(), "{messages}");
        let report = host.json("list --json", 0);
        assert_eq!(report.get("checkpoint").unwrap(), state);
    }
    host.remove(&path);
    let output = host.run("list");
    assert_eq!(
        (output.status.code(), stderr(&output)),
        (Some(0), String::new())
    );
    let report = host.json("list --json", 0);
    assert_eq!(report.get("checkpoint").unwrap(), "absent");
    host.write(&format!("{path}/directory"), "");
    let output = host.run("list");
    assert!(
        stderr(&output).contains("not a regular file"),
        "{}",
        stderr(&output)
    );
    let moved = host.json("list --json --kubelet-root /opt/kubelet", 0);
    assert_eq!(moved.get("checkpoint").unwrap(), "absent");
}

#[test]
fn checkpoints_of_every_go_driver_are_read() {
    let domain = "c0ffee00-1234-4567-89ab-0123456789ab";
    for (fixture, digit, domain) in [
        ("02-channel-completed.json", '1', domain),
        ("03-channel-started.json", '2', "-"),
        ("05-daemon-completed.json", '4', "-"),
        ("08-channel-completed-no-clique.json", '7', domain),
        ("09-v1-only-25.3.x.json", '1', domain),
        ("10-v2-no-bootid-25.8-to-25.12.json", '1', domain),
        ("12-legacy-25.3.0-rc.2.json", '6', domain),
    ] {
        let host = Host::healthy();
        host.remove(SPEC);
        let uid = CLAIMS[0].replace('1', &digit.to_string());
        let uid = uid.as_str();
        host.write(&spec_path(uid), spec(&Prepared::new(uid, domain, 0)));
        host.write(&format!("{PLUGIN}/checkpoint.json"), Host::fixture(fixture));
        let [channel, shown] = listed(&host.out("list", 0), uid);
        assert_eq!([channel.as_str(), &shown], ["0", domain], "{fixture}");
        let output = host.run("doctor --json");
        let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
        for id in ["channel-of-two-owners", "spec-of-another-channel"] {
            assert_eq!(host::finding(&report, id), None, "{fixture}");
        }
    }
}

#[test]
fn ten_thousand_claims_are_a_short_report() {
    let uid = |n: u32| format!("{n:08x}-aaaa-4bbb-8ccc-000000000001");
    let claims: Vec<Prepared> = (0..10_000)
        .map(|n| Prepared::new(&uid(n), &format!("domain-{n}"), 1 + n % 2))
        .collect();
    let host = host(claims.get(..64).unwrap());
    record(&host, &claims);
    let shown = host.out("doctor", 1);
    assert!(shown.lines().count() <= 60, "{shown}");
    let others = "(and 4998 more like it)";
    assert!(shown.contains(others), "{shown}");
    assert!(shown.contains("10000 domains on channels 1-2"), "{shown}");
    assert_eq!(host.out("list", 0).lines().count(), 65);
}
