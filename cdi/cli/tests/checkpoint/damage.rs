//! Damaged checkpoints: what is wrong, and the fix.

use std::fs;

use super::{changed, run, stdout};

#[test]
fn the_fix_depends_on_how_far_recovery_is_by_the_files_name() {
    let name = "02-channel-completed.json";
    // Damage in V1, which keeps every claim, and in V2, which may lose one.
    let in_v1 = changed(name, "worker-0", "worker-9");
    let in_v2 = changed(name, r#""namespace":"default""#, r#""namespace":"defaulT""#);
    for ((_dir, path), renamed, expected) in [
        (&in_v1, "checkpoint.json", "continues to use every claim"),
        (&in_v2, "checkpoint.json", "restores missing claims"),
        (
            &in_v1,
            "checkpoint.json.damaged-v1-checksum",
            "until then, the plugin continues to use every claim",
        ),
        (
            &in_v2,
            "checkpoint.json.damaged-v2-checksum-2",
            "the plugin is rebuilding the missing records",
        ),
        (
            &in_v2,
            "checkpoint.json.settled-v2-checksum",
            "nothing to do",
        ),
    ] {
        let there = path.with_file_name(renamed);
        if there != *path {
            fs::copy(path, &there).unwrap();
        }
        let table = stdout(&run("show", &[&there]));
        let fix = table.lines().find(|line| line.starts_with("fix "));
        let fix = fix.unwrap();
        assert!(fix.contains(expected), "{renamed}: {fix}");
        let has_still_to = fix.contains("next start");
        assert_eq!(has_still_to, renamed == "checkpoint.json", "{fix}");
        // Where nothing is missing, nothing is rebuilt.
        if *path == in_v1.1 {
            assert!(!fix.contains("missing"), "{fix}");
        }
    }
}

#[test]
fn the_message_says_which_name_is_wrong() {
    let (_dir, path) = changed("02-channel-completed.json", r#","v2":"#, r#","V2":"#);
    let line = stdout(&run("verify", &[&path]));
    assert!(line.contains(r#"V2: Go reads this name as "v2""#), "{line}");
    fs::write(&path, "{}").unwrap();
    let line = stdout(&run("verify", &[&path]));
    assert!(
        line.ends_with("the file: neither v1 nor v2 found\n"),
        "{line}"
    );
}
