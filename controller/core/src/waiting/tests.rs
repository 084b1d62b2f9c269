use super::*;
use crate::fixtures::{finalized, merged, mk_domain};
use crate::{Admission, Report, StatusSchema, status_patch};

const COUNT: NodeCount = NodeCount {
    without_clique: 3,
    all: 10,
};

fn now() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

/// All variants of [`Waiting`].
fn all() -> [Waiting; 6] {
    [
        Waiting::Unknown,
        Waiting::Nothing,
        Waiting::Briefly,
        Waiting::Long,
        Waiting::Counted(COUNT),
        Waiting::Counted(NodeCount {
            without_clique: 0,
            all: 10,
        }),
    ]
}

fn status(domain: &Domain, waiting: Waiting, now: Timestamp) -> Value {
    let report = Report {
        notice: waiting.notice(domain),
        ..Admission::Admitted.into()
    };
    status_patch(domain, &report, StatusSchema::FULL, now)["status"].take()
}

/// A domain with the condition.
fn noticed() -> Domain {
    let domain = mk_domain(finalized());
    let status = status(&domain, Waiting::Counted(COUNT), now());
    mk_domain(merged(finalized(), json!({ "status": status })))
}

#[test]
fn the_controller_counts_nodes_once_and_only_if_a_claim_has_waited_long() {
    let domain = mk_domain(finalized());
    for waiting in all() {
        let counts = waiting.needs_count(&domain);
        assert_eq!(counts, waiting == Waiting::Long, "{waiting:?}");
        assert!(!waiting.needs_count(&noticed()), "{waiting:?}");
    }
}

#[test]
fn the_condition_says_how_many_nodes_have_no_clique() {
    let domain = mk_domain(finalized());
    let conditions = status(&domain, Waiting::Counted(COUNT), now())["conditions"].take();
    assert_eq!(conditions[0]["type"], "Ready");
    assert_eq!(
        conditions[1],
        json!({
            "type": "NodesWithoutClique",
            "status": "True",
            "reason": "ClaimWaits",
            "message": "a ResourceClaim waits for allocation; 3 of 10 nodes with IMEX channels are not in an NVLink clique, and their taint compute-domain.nvidia.com/no-clique keeps this ComputeDomain's pods away",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        })
    );
    for waiting in all() {
        let noticed = waiting.notice(&domain).is_some();
        assert_eq!(noticed, waiting == Waiting::Counted(COUNT), "{waiting:?}");
    }
}

#[test]
fn the_condition_stays_unchanged_until_no_claim_waits() {
    let later = "2026-02-02T03:04:05Z".parse().unwrap();
    let domain = noticed();
    assert!(domain.reports_nodes_without_clique());
    let before = status(&domain, Waiting::Unknown, now());
    for waiting in all() {
        let after = status(&domain, waiting, later);
        if waiting == Waiting::Nothing {
            assert_eq!(after["conditions"].as_array().unwrap().len(), 1);
        } else {
            assert_eq!(
                after["conditions"][1], before["conditions"][1],
                "{waiting:?}"
            );
        }
    }
}
