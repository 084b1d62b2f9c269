//! The log lines of readiness. The only test of its process: tracing decides once, for all threads,
//! whether a line is enabled.

use std::sync::Mutex;

use daemon_runtime::Readiness;

#[test]
fn every_change_and_the_removal_of_an_unmet_condition_are_logged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(Mutex::new(std::fs::File::create(&path).unwrap()))
        .init();
    let mut seen = 0;
    let mut new_lines = || {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<String> = text
            .lines()
            .skip(seen)
            .map(|line| {
                line.split_once("daemon_runtime::readiness: ")
                    .unwrap()
                    .1
                    .to_owned()
            })
            .collect();
        seen += lines.len();
        lines
    };

    let readiness = Readiness::default();
    let condition = readiness.add_condition("claims", "not listed yet");
    assert!(new_lines().is_empty());
    condition.set_met();
    condition.set_met();
    assert_eq!(new_lines(), ["ready condition=\"claims\""]);

    for reason in ["away", "not listed again"] {
        readiness.add_condition("claims", reason);
        readiness.add_condition("claims", reason);
        let not_ready = format!("not ready condition=\"claims\" reason=\"{reason}\"");
        assert_eq!(new_lines(), [not_ready]);
    }

    readiness.remove_condition("claims");
    readiness.remove_condition("claims");
    let removed = "condition removed; readiness no longer depends on it condition=\"claims\" reason=\"not listed again\"";
    assert_eq!(new_lines(), [removed]);

    readiness.add_condition("claims", "not listed").set_met();
    assert_eq!(new_lines(), ["ready condition=\"claims\""]);
    readiness.remove_condition("claims");
    assert!(new_lines().is_empty());
}
