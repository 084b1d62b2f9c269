//! `gc`.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use durable_file::{Dir, OsDir};

use super::host::{CLAIM, Host, KUBELET, PLUGIN, SPEC, kubelet, spec};
use super::{stderr, stdout};

const ORPHAN: &str = "22222222-aaaa-4bbb-8ccc-000000000002";

/// A healthy host with a spec that no claim needs.
fn with_orphan() -> (Host, String) {
    let host = Host::healthy();
    let path = SPEC.replace(CLAIM, ORPHAN);
    host.write(&path, spec("0.5.0", 235).replace(CLAIM, ORPHAN));
    (host, path)
}

#[test]
fn an_orphan_is_listed_and_kept() {
    let (host, path) = with_orphan();
    let text = host.out("gc", 1);
    assert!(text.contains(ORPHAN) && text.contains(" orphan "), "{text}");
    assert!(!text.contains(CLAIM), "{text}");
    assert!(host.at(&path).exists());
}

#[test]
fn an_orphan_is_removed_and_a_second_time_there_is_none() {
    let (host, path) = with_orphan();
    host.write(
        "run/cdi/vendor.json",
        spec("0.5.0", 235).replace(CLAIM, "x"),
    );
    let text = host.out("gc --remove", 0);
    assert!(
        text.contains(ORPHAN) && text.contains(" removed "),
        "{text}"
    );
    assert!(!host.at(&path).exists());
    assert!(host.at(SPEC).exists() && host.at("run/cdi/vendor.json").exists());
    assert_eq!(host.out("gc --remove", 0).lines().count(), 1);
    assert_eq!(host.out("gc", 0).lines().count(), 1);
}

#[test]
fn orphans_are_searched_in_all_default_directories_once() {
    let (host, path) = with_orphan();
    let static_path = path.replace("run/cdi", "etc/cdi");
    fs::rename(host.at(&path), host.at(&static_path)).unwrap();
    let text = host.out("gc", 1);
    assert!(
        text.contains("/etc/cdi/") && text.lines().count() == 2,
        "{text}"
    );
    // Only where it is told to, if it is.
    assert_eq!(host.out("gc --cdi-dir /var/run/cdi", 0).lines().count(), 1);
    assert!(host.out("gc --remove", 0).contains(" removed "));
    assert!(!host.at(&static_path).exists() && host.at(SPEC).exists());

    host.write(&path, spec("0.5.0", 235));
    host.remove("etc/cdi");
    symlink("/run/cdi", host.at("etc/cdi")).unwrap();
    assert_eq!(host.out("gc", 1).lines().count(), 2);
    let report = host.json("gc --json --cdi-dir /etc/cdi", 1);
    assert_eq!(report.pointer("/orphans/0/claim").unwrap(), ORPHAN);
}

#[test]
fn a_directory_that_was_named_and_does_not_exist_is_an_error() {
    let (host, path) = with_orphan();
    for words in [
        "gc --cdi-dir /var/run/cdy",
        "gc --remove --cdi-dir /opt/cdi",
    ] {
        let output = host.run(words);
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        assert_eq!(stdout(&output), "");
        let told = stderr(&output);
        assert!(told.contains("check what --cdi-dir"), "{told}");
    }
    assert!(host.at(&path).exists());
    for dir in ["run/cdi", "etc/cdi"] {
        host.remove(dir);
        host.out("gc --cdi-dir /var/run/cdi --cdi-dir /etc/cdi", 0);
        host.out("gc --remove", 0);
    }
}

#[test]
fn an_orphan_that_cannot_be_removed_is_reported_and_the_others_are_removed() {
    let (host, path) = with_orphan();
    let other = "00000000-aaaa-4bbb-8ccc-000000000000";
    fs::create_dir(host.at(&SPEC.replace(CLAIM, other))).unwrap();
    let output = host.run("gc --remove");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stdout(&output).contains(" removed "), "{}", stdout(&output));
    assert!(!host.at(&path).exists());
    let told = stderr(&output);
    assert!(
        told.contains("cannot remove") && told.contains("in its place"),
        "{told}"
    );
    assert!(!told.contains("as root"), "{told}");
}

#[test]
fn a_claim_that_was_only_started_keeps_its_spec() {
    let host = Host::healthy();
    let started = Host::fixture("03-channel-started.json");
    host.write(&format!("{PLUGIN}/checkpoint.json"), started);
    host.write(KUBELET, kubelet(&[]));
    let uid = "22222222-aaaa-4bbb-8ccc-000000000002";
    host.write(
        &SPEC.replace(CLAIM, uid),
        spec("0.5.0", 235).replace(CLAIM, uid),
    );
    let text = host.out("gc --remove", 0);
    assert!(text.contains(CLAIM) && !text.contains(uid), "{text}");
}

// req: DOCTOR-8
#[test]
fn without_a_trustworthy_checkpoint_nothing_is_an_orphan() {
    let checkpoint = format!("{PLUGIN}/checkpoint.json");
    let breaks: [fn(&Host, &str); 3] = [
        |host, checkpoint| host.remove(checkpoint),
        |host, checkpoint| host.write(checkpoint, "{"),
        |host, checkpoint| host.write(&format!("{checkpoint}.damaged-not-json"), "{"),
    ];
    for break_it in breaks {
        let (host, path) = with_orphan();
        break_it(&host, &checkpoint);
        for words in ["gc", "gc --remove"] {
            let output = host.run(words);
            assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
            assert_eq!(stdout(&output), "");
            assert!(stderr(&output).contains("--live"), "{}", stderr(&output));
        }
        assert!(host.at(&path).exists() && host.at(SPEC).exists());
        host.out(&format!("gc --remove --live {CLAIM}"), 0);
        assert!(!host.at(&path).exists() && host.at(SPEC).exists());
    }
}

// req: DOCTOR-8
#[test]
fn a_claim_of_kubelet_keeps_its_spec_even_if_the_plugin_lost_it() {
    let (host, path) = with_orphan();
    host.write(KUBELET, kubelet(&[CLAIM, ORPHAN]));
    assert_eq!(host.out("gc --remove", 0).lines().count(), 1);
    assert!(host.at(&path).exists());
    let told = stdout(&host.run("doctor"));
    assert!(told.contains("claim-unknown-to-plugin"), "{told}");
    assert!(!told.contains("spec-without-claim"), "{told}");
    // Nor where it is not known what kubelet has.
    host.write(KUBELET, "{");
    let output = host.run(&format!("gc --remove --live {CLAIM}"));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(host.at(&path).exists());
}

#[test]
fn what_survives_in_a_checkpoint_that_was_set_aside_keeps_its_spec() {
    let (host, path) = with_orphan();
    let aside = format!("{PLUGIN}/checkpoint.json.damaged-v1-checksum");
    host.write(&aside, Host::fixture("03-channel-started.json"));
    let text = host.out(&format!("gc --remove --live {CLAIM}"), 0);
    assert!(!text.contains(ORPHAN), "{text}");
    assert!(host.at(&path).exists());
}

#[test]
fn a_pipe_instead_of_a_file_does_not_block() {
    let checkpoint = format!("{PLUGIN}/checkpoint.json");
    let aside = format!("{checkpoint}.damaged-empty");
    for path in [checkpoint.as_str(), KUBELET, &aside] {
        let (host, orphan) = with_orphan();
        // The last is not there on a healthy host.
        let _ = fs::remove_file(host.at(path));
        let made = Command::new("mkfifo").arg(host.at(path)).status();
        assert!(made.unwrap().success());
        let output = Command::new("timeout")
            .args(["30", env!("CARGO_BIN_EXE_cdi-gen"), "gc", "--remove"])
            .args(["--live", CLAIM, "--root"])
            .arg(host.at(""))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(3), "{path}: {}", stderr(&output));
        assert!(stderr(&output).contains("is not a checkpoint"), "{path}");
        assert!(host.at(&orphan).exists());
    }
}

#[test]
fn a_name_that_is_not_a_uid_is_wrong_usage() {
    let (host, path) = with_orphan();
    let output = host.run("gc --remove --live default/worker-0");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(host.at(&path).exists());
}

// req: DOCTOR-8
#[test]
fn nothing_is_removed_while_a_plugin_holds_its_lock() {
    let (host, path) = with_orphan();
    host.write(KUBELET, kubelet(&[]));
    let plugin = OsDir::open(host.at(PLUGIN)).unwrap();
    let lock = plugin.lock("pu.lock", Duration::from_secs(10)).unwrap();
    thread::scope(|scope| {
        let (done, ended) = mpsc::channel();
        let run = || host.out("gc --remove", 0);
        scope.spawn(move || done.send(run()).unwrap());
        let waited = ended.recv_timeout(Duration::from_millis(500));
        assert!(waited.is_err(), "it did not wait: {waited:?}");
        // While it waits, the plugin begins to prepare the claim.
        let started = Host::fixture("03-channel-started.json");
        fs::write(host.at(&format!("{PLUGIN}/checkpoint.json")), started).unwrap();
        drop(lock);
        let text = ended.recv_timeout(Duration::from_secs(30)).unwrap();
        assert!(text.contains(CLAIM) && !text.contains(ORPHAN), "{text}");
    });
    assert!(host.at(&path).exists());
}
