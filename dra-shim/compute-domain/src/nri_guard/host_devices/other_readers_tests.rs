//! Specs that runtimes' libraries may read differently from the guard.

use super::super::Mode;
use super::super::tests::Guarded;
use super::tests::{asking, with_channel};

/// A channel in a device whose name is `10` or `0x10`, depending on the reader.
fn named_by_number(kind: &str) -> String {
    format!(
        "cdiVersion: 0.5.0\nkind: {kind}\ndevices:\n- name: 0x10\n  containerEdits:\n    deviceNodes:\n    \
         - {{path: /dev/x, type: c, major: 235, minor: 1}}\n"
    )
}

// req: NRI-15, NRI-21
#[tokio::test]
async fn a_spec_that_runtimes_may_read_differently_makes_its_kind_unknown_and_no_other() {
    let both =
        with_channel("example.com/fabric").replace("\"kind\"", "\"Kind\": \"a.com/b\", \"kind\"");
    let alias = with_channel("example.com/fabric").replacen(':', ": &a ", 1);
    let more = with_channel("example.com/fabric") + "}";
    for (spec, reason) in [
        (
            named_by_number("example.com/fabric"),
            "put the value in quotes",
        ),
        (alias, "has an anchor"),
        (both, "a runtime may read this file differently"),
        (more, "a runtime may read this file differently"),
    ] {
        for mode in [Mode::Enforce, Mode::Warn] {
            let guarded = Guarded::start(mode).await;
            guarded.write_spec("odd.yaml", &spec);
            for name in ["example.com/fabric=0x10", "example.com/fabric=all"] {
                for (pod, container) in asking(name) {
                    let created = guarded.create(&pod, &container).await;
                    assert_eq!(created.is_err(), mode == Mode::Enforce, "{spec}");
                }
            }
            // One event for all of them: their requests are the same.
            let event = guarded.event().await;
            let is_reported = event.contains("ChannelNotChecked") && event.contains(reason);
            assert!(is_reported && event.contains("odd.yaml"), "{event}");
            for (pod, container) in asking("nobodys.com/a=b") {
                guarded.create(&pod, &container).await.unwrap();
            }
        }
    }
}
