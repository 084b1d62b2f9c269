use super::*;

fn mk_taken() -> Rejection {
    Rejection::NameTaken {
        name: "shared".to_owned(),
        owner: "no ComputeDomain".to_owned(),
    }
}

fn mk_name() -> TakenName {
    TakenName {
        namespace: "team".into(),
        name: "shared".into(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_stale_read_of_the_name_does_not_end_the_handover() {
    let refusals = Refusals::default();
    let (a, b): (Key, Key) = ("a".into(), "b".into());
    refusals.record(&a, "team", mk_taken());
    refusals.record(&b, "team", mk_taken());
    // A running reconcile has read the name, but the watch event arrives before the response.
    refusals.start_handover(&a);
    assert_eq!(refusals.name_is_free(&mk_name()), Some(a.clone()));
    refusals.record(&a, "team", mk_taken());
    assert_eq!(refusals.end_handover(&a, |_| false), None);
    assert_eq!(refusals.current(&a), None, "it checks again");

    refusals.start_handover(&a);
    assert_eq!(refusals.end_handover(&a, |_| false), Some(b));
}

#[tokio::test(start_paused = true)]
async fn each_waiter_gets_one_handover_and_none_is_left() {
    let refusals = Refusals::default();
    let (a, b): (Key, Key) = ("a".into(), "b".into());
    refusals.record(&a, "team", mk_taken());
    refusals.record(&b, "elsewhere", mk_taken());
    assert_eq!(refusals.name_is_free(&mk_name()), Some(a.clone()));
    refusals.start_handover(&a);
    assert_eq!(refusals.end_handover(&a, |_| false), None);
    assert_eq!(refusals.end_handover(&a, |_| false), None);
    assert!(refusals.lock().handovers.is_empty());
    refusals.forget(&a);
    assert_eq!(refusals.name_is_free(&mk_name()), None);
}
