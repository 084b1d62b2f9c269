use super::*;

/// Every transition.
fn moves() -> impl Iterator<Item = (Phase, Event, Result<Phase, Refusal>)> {
    let pairs = Phase::ALL
        .into_iter()
        .flat_map(|phase| Event::ALL.map(|event| (phase, event)));
    pairs.map(|(phase, event)| (phase, event, phase.next(event)))
}

#[test]
fn only_a_prepare_in_progress_or_a_restore_makes_a_claim_hold_devices() {
    for (phase, event, next) in moves() {
        if next == Ok(Phase::Completed) && phase != Phase::Completed {
            let cause = (phase, event);
            let is_complete = cause == (Phase::Started, Event::CompleteSame);
            assert!(
                is_complete || cause == (Phase::Absent, Event::Restore),
                "{cause:?}"
            );
        }
    }
}

#[test]
fn a_claim_that_holds_devices_loses_them_only_after_its_effects_are_undone() {
    for (phase, event, next) in moves() {
        let undone = matches!(event, Event::Remove | Event::AfterReboot);
        if phase == Phase::Completed && !undone {
            assert!(next.unwrap_or(phase) == phase, "{event:?}: {next:?}");
        }
    }
}

#[test]
fn a_started_record_ends_only_after_its_effects_are_undone() {
    for (phase, event, next) in moves() {
        if phase == Phase::Started && matches!(next, Ok(Phase::Absent | Phase::Aborted)) {
            assert!(
                matches!(event, Event::Abort | Event::AfterReboot),
                "{event:?}"
            );
        }
    }
}

#[test]
fn a_late_attempt_with_the_aborted_status_is_refused_within_the_fence() {
    assert_eq!(
        Phase::Aborted.next(Event::StartFenced),
        Err(Refusal::Aborted)
    );
    for (phase, event, next) in moves() {
        let is_late = event == Event::CompleteSame && phase != Phase::Started;
        assert!(!is_late || next.is_err(), "{phase:?}, {event:?}");
    }
}

#[test]
fn every_event_may_be_repeated_or_is_refused_the_second_time() {
    for (_, event, next) in moves() {
        let Ok(once) = next else { continue };
        match once.next(event) {
            Ok(twice) => assert_eq!(twice, once, "{event:?}"),
            Err(refusal) => assert_eq!(refusal, Refusal::Completed, "{event:?}"),
        }
    }
}

#[test]
fn every_phase_is_reachable_from_every_other() {
    for start in Phase::ALL {
        let mut reached = vec![start];
        for step in 0..Phase::ALL.len() {
            let Some(phase) = reached.get(step).copied() else {
                break;
            };
            for next in Event::ALL
                .into_iter()
                .filter_map(|event| phase.next(event).ok())
            {
                if !reached.contains(&next) {
                    reached.push(next);
                }
            }
        }
        assert_eq!(
            reached.len(),
            Phase::ALL.len(),
            "from {start:?}: {reached:?}"
        );
    }
}

#[test]
fn names_are_unique() {
    for (at, event) in Event::ALL.into_iter().enumerate() {
        assert!(
            Event::ALL[..at]
                .iter()
                .all(|other| other.name() != event.name())
        );
    }
    for (at, phase) in Phase::ALL.into_iter().enumerate() {
        assert!(
            Phase::ALL[..at]
                .iter()
                .all(|other| other.name() != phase.name())
        );
    }
}
