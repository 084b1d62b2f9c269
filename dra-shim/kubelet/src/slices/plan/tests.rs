use k8s_openapi::api::resource::v1::DeviceTaint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;

fn mk_pool() -> Pool {
    Pool {
        driver: "d.example.com".into(),
        node: "n1".into(),
        node_uid: "u-1".into(),
    }
}

fn mk_device(name: &str) -> Device {
    Device {
        name: name.into(),
        ..Default::default()
    }
}

fn mk_slice(name: &str, generation: i64, devices: &[Device]) -> ResourceSlice {
    let Step::Create(mut slice) = mk_pool().create(devices, generation).unwrap() else {
        unreachable!()
    };
    slice.metadata.name = Some(name.into());
    slice.metadata.resource_version = Some("7".into());
    slice
}

fn mk_observed(slices: impl IntoIterator<Item = ResourceSlice>) -> BTreeMap<String, ResourceSlice> {
    slices
        .into_iter()
        .map(|slice| (slice.metadata.name.clone().unwrap(), slice))
        .collect()
}

const GO_NAME: &str = "00000-d.example.com-n1-x7k2p";

#[test]
fn a_missing_slice_is_created_under_a_name_that_can_be_foretold() {
    let steps = publish(&mk_pool(), &[mk_device("a")], None, &BTreeMap::new()).unwrap();
    let [Step::Create(slice)] = steps.as_slice() else {
        panic!("{steps:?}")
    };
    assert_eq!(
        slice.metadata.name.as_deref(),
        Some("00000-d.example.com-n1")
    );
    assert_eq!(slice.spec.pool.generation, 1);
    let owner = &slice.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.uid.as_str(), owner.controller), ("u-1", Some(true)));
}

#[test]
fn a_slice_that_is_right_is_left_alone_whoever_named_it() {
    let observed = mk_observed([mk_slice(GO_NAME, 5, &[mk_device("a")])]);
    assert_eq!(
        publish(&mk_pool(), &[mk_device("a")], None, &observed).unwrap(),
        []
    );
}

#[test]
fn a_changed_slice_is_updated_in_place_without_a_new_generation() {
    let observed = mk_observed([mk_slice(GO_NAME, 5, &[mk_device("a")])]);
    let steps = publish(&mk_pool(), &[mk_device("b")], None, &observed).unwrap();
    let [Step::Replace(slice)] = steps.as_slice() else {
        panic!("{steps:?}")
    };
    assert_eq!(slice.metadata.name.as_deref(), Some(GO_NAME));
    assert_eq!(slice.metadata.resource_version.as_deref(), Some("7"));
    assert_eq!(slice.spec.pool.generation, 5);
}

#[test]
fn a_recreated_node_becomes_the_new_owner() {
    let observed = mk_observed([mk_slice(GO_NAME, 5, &[mk_device("a")])]);
    let pool = Pool {
        node_uid: "u-2".into(),
        ..mk_pool()
    };
    let steps = publish(&pool, &[mk_device("a")], None, &observed).unwrap();
    let [Step::Replace(slice)] = steps.as_slice() else {
        panic!("{steps:?}")
    };
    assert_eq!(
        slice.metadata.owner_references.as_ref().unwrap()[0].uid,
        "u-2"
    );
}

#[test]
fn a_duplicate_is_outdated_by_a_new_generation_before_it_is_deleted() {
    let devices = [mk_device("a")];
    let observed = mk_observed([
        mk_slice(GO_NAME, 5, &devices),
        mk_slice("00000-d.example.com-n1-zzzzz", 5, &devices),
    ]);
    let steps = publish(&mk_pool(), &devices, None, &observed).unwrap();
    let [Step::Replace(kept), Step::Delete(gone)] = steps.as_slice() else {
        panic!("{steps:?}")
    };
    assert_eq!(kept.metadata.name.as_deref(), Some(GO_NAME));
    assert_eq!(kept.spec.pool.generation, 6);
    assert_ne!(gone.metadata.name, kept.metadata.name);
}

#[test]
fn an_older_or_misnamed_slice_of_ours_is_deleted() {
    let devices = [mk_device("a")];
    let observed = mk_observed([
        mk_slice(GO_NAME, 5, &devices),
        mk_slice("n1-d.example.com-abcde", 4, &devices),
    ]);
    let steps = publish(&mk_pool(), &devices, None, &observed).unwrap();
    let [Step::Delete(gone)] = steps.as_slice() else {
        panic!("{steps:?}")
    };
    assert_eq!(
        gone.metadata.name.as_deref(),
        Some("n1-d.example.com-abcde")
    );
}

#[test]
fn a_pool_of_two_slices_shrinks_to_one_of_a_new_generation() {
    let mut first = mk_slice(GO_NAME, 5, &[mk_device("a")]);
    let mut second = mk_slice("00001-d.example.com-n1-abcde", 5, &[mk_device("b")]);
    first.spec.pool.resource_slice_count = 2;
    second.spec.pool.resource_slice_count = 2;
    let steps = publish(
        &mk_pool(),
        &[mk_device("a")],
        None,
        &mk_observed([first, second]),
    )
    .unwrap();
    let [Step::Replace(kept), Step::Delete(_)] = steps.as_slice() else {
        panic!("{steps:?}")
    };
    assert_eq!(kept.spec.pool.generation, 6);
    assert_eq!(kept.spec.pool.resource_slice_count, 1);
}

#[test]
fn what_the_server_made_of_our_devices_is_not_sent_again() {
    let sent = vec![Device {
        binds_to_node: Some(true),
        ..mk_device("a")
    }];
    let accepted = Accepted {
        sent: sent.clone(),
        stored: Some(vec![mk_device("a")]),
    };
    let observed = mk_observed([mk_slice(GO_NAME, 5, &[mk_device("a")])]);
    assert_eq!(
        publish(&mk_pool(), &sent, Some(&accepted), &observed).unwrap(),
        []
    );
    assert_eq!(
        publish(&mk_pool(), &sent, None, &observed).unwrap().len(),
        1
    );
}

#[test]
fn a_taint_keeps_the_time_that_the_server_gave_it() {
    let taint = DeviceTaint {
        key: "k".into(),
        effect: "NoSchedule".into(),
        ..Default::default()
    };
    let time = Some(Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH));
    let stored = DeviceTaint {
        time_added: time,
        ..taint.clone()
    };
    let with = |taint| Device {
        taints: Some(vec![taint]),
        ..mk_device("a")
    };
    let observed = mk_observed([mk_slice(GO_NAME, 5, &[with(stored)])]);
    assert_eq!(
        publish(&mk_pool(), &[with(taint)], None, &observed).unwrap(),
        []
    );
}

#[test]
fn more_devices_than_a_slice_holds_are_refused_by_number() {
    let devices: Vec<_> = (0..65).map(|n| mk_device(&format!("d{n}"))).collect();
    let error = publish(&mk_pool(), &devices, None, &BTreeMap::new()).unwrap_err();
    assert!(error.to_string().contains("65"), "{error}");
}

#[test]
fn withdrawing_deletes_every_slice_of_ours() {
    let observed = mk_observed([mk_slice(GO_NAME, 5, &[]), mk_slice("odd", 1, &[])]);
    assert_eq!(withdraw(&observed).len(), 2);
}

#[test]
fn only_five_or_more_hexadecimal_digits_are_an_index() {
    assert_eq!(index("00000-a-b"), Some(0));
    assert_eq!(index("0001f-a-b"), Some(31));
    for name in ["0000-a", "node-a-b", "+0000-a", "00000"] {
        assert_eq!(index(name), None, "{name}");
    }
}
