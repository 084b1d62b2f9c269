use k8s_openapi::api::resource::v1::DeviceTaint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::*;

fn mk_pool() -> Pool {
    Pool {
        driver: "d.example.com".into(),
        node: "n1".into(),
        node_uid: "u-1".into(),
        taken: BTreeSet::new(),
    }
}

fn mk_device(name: &str) -> Device {
    Device {
        name: name.into(),
        ..Default::default()
    }
}

fn mk_slice(name: &str, generation: i64, devices: &[Device]) -> ResourceSlice {
    let slot = Slot {
        index: 0,
        devices: devices.iter().collect(),
        existing: None,
        up_to_date: false,
    };
    let write = mk_pool().write(&slot, 1, generation).unwrap();
    let Some(Step::Create(mut slice)) = write else {
        unreachable!()
    };
    slice.metadata.name = Some(name.into());
    slice.metadata.resource_version = Some("7".into());
    slice
}

fn mk_numbered(numbers: std::ops::Range<usize>) -> Vec<Device> {
    numbers
        .map(|number| mk_device(&format!("d{number}")))
        .collect()
}

/// A slice of a pool of `count` slices.
fn mk_part(name: &str, generation: i64, count: i64, devices: &[Device]) -> ResourceSlice {
    let mut slice = mk_slice(name, generation, devices);
    slice.spec.pool.resource_slice_count = count;
    slice
}

fn mk_tainted(device: &Device) -> Device {
    let taint = DeviceTaint {
        key: "k".into(),
        effect: "NoSchedule".into(),
        ..Default::default()
    };
    Device {
        taints: Some(vec![taint]),
        ..device.clone()
    }
}

/// The requests in order, without stages.
fn steps(
    pool: &Pool,
    devices: &[Device],
    observed: &BTreeMap<String, ResourceSlice>,
) -> Result<Vec<Step>, SliceError> {
    let stages = publish(pool, devices, &StoredForms::default(), observed)?;
    Ok(stages.into_iter().flatten().collect())
}

fn generations(steps: &[Step]) -> Vec<i64> {
    let written = steps.iter().filter_map(|step| match step {
        Step::Create(slice) | Step::Replace(slice) => Some(slice.spec.pool.generation),
        Step::Delete(_) => None,
    });
    written.collect()
}

fn mk_observed(slices: impl IntoIterator<Item = ResourceSlice>) -> BTreeMap<String, ResourceSlice> {
    slices
        .into_iter()
        .map(|slice| (slice.metadata.name.clone().unwrap(), slice))
        .collect()
}

const GO_NAME: &str = "00000-d.example.com-n1-x7k2p";
const GO_SECOND: &str = "00001-d.example.com-n1-q2w3e";

#[test]
fn a_missing_slice_is_created_under_a_predictable_name() {
    let steps = steps(&mk_pool(), &[mk_device("a")], &BTreeMap::new()).unwrap();
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
fn a_correct_slice_is_not_rewritten_under_any_name() {
    let observed = mk_observed([mk_slice(GO_NAME, 5, &[mk_device("a")])]);
    assert_eq!(steps(&mk_pool(), &[mk_device("a")], &observed).unwrap(), []);
}

// req: KUBELET-47
#[test]
fn a_changed_slice_is_updated_in_place_without_a_new_generation() {
    let observed = mk_observed([mk_slice(GO_NAME, 5, &[mk_device("a")])]);
    let steps = steps(&mk_pool(), &[mk_device("b")], &observed).unwrap();
    let [Step::Replace(slice)] = steps.as_slice() else {
        panic!("{steps:?}")
    };
    assert_eq!(slice.metadata.name.as_deref(), Some(GO_NAME));
    assert_eq!(slice.metadata.resource_version.as_deref(), Some("7"));
    assert_eq!(slice.spec.pool.generation, 5);
}

// req: KUBELET-43
#[test]
fn a_recreated_node_becomes_the_new_owner() {
    let observed = mk_observed([mk_slice(GO_NAME, 5, &[mk_device("a")])]);
    let pool = Pool {
        node_uid: "u-2".into(),
        ..mk_pool()
    };
    let steps = steps(&pool, &[mk_device("a")], &observed).unwrap();
    let [Step::Replace(slice)] = steps.as_slice() else {
        panic!("{steps:?}")
    };
    assert_eq!(
        slice.metadata.owner_references.as_ref().unwrap()[0].uid,
        "u-2"
    );
}

#[test]
fn a_duplicate_slice_needs_a_new_generation_before_its_deletion() {
    let devices = [mk_device("a")];
    let observed = mk_observed([
        mk_slice(GO_NAME, 5, &devices),
        mk_slice("00000-d.example.com-n1-zzzzz", 5, &devices),
    ]);
    let steps = steps(&mk_pool(), &devices, &observed).unwrap();
    let [Step::Replace(kept), Step::Delete(gone)] = steps.as_slice() else {
        panic!("{steps:?}")
    };
    assert_eq!(kept.metadata.name.as_deref(), Some(GO_NAME));
    assert_eq!(kept.spec.pool.generation, 6);
    assert_ne!(gone.metadata.name, kept.metadata.name);
}

// req: KUBELET-44
#[test]
fn an_older_or_misnamed_slice_of_ours_is_deleted() {
    let devices = [mk_device("a")];
    let observed = mk_observed([
        mk_slice(GO_NAME, 5, &devices),
        mk_slice("n1-d.example.com-abcde", 4, &devices),
    ]);
    let steps = steps(&mk_pool(), &devices, &observed).unwrap();
    let [Step::Delete(gone)] = steps.as_slice() else {
        panic!("{steps:?}")
    };
    assert_eq!(
        gone.metadata.name.as_deref(),
        Some("n1-d.example.com-abcde")
    );
}

// req: KUBELET-40
#[test]
fn a_pool_of_two_slices_shrinks_to_one_of_a_new_generation() {
    let mut first = mk_slice(GO_NAME, 5, &[mk_device("a")]);
    let mut second = mk_slice("00001-d.example.com-n1-abcde", 5, &[mk_device("b")]);
    first.spec.pool.resource_slice_count = 2;
    second.spec.pool.resource_slice_count = 2;
    let steps = steps(&mk_pool(), &[mk_device("a")], &mk_observed([first, second])).unwrap();
    let [Step::Replace(kept), Step::Delete(_)] = steps.as_slice() else {
        panic!("{steps:?}")
    };
    assert_eq!(kept.spec.pool.generation, 6);
    assert_eq!(kept.spec.pool.resource_slice_count, 1);
}

#[test]
fn the_stored_form_of_a_device_is_not_sent_again() {
    let sent = [mk_tainted(&mk_device("a"))];
    let stored = mk_slice(GO_NAME, 5, &[mk_device("a")]);
    let mut stored_forms = StoredForms::default();
    let observed = mk_observed([stored.clone()]);
    let before = publish(&mk_pool(), &sent, &stored_forms, &observed).unwrap();
    assert_eq!(before.len(), 1);
    stored_forms.record(&sent, std::slice::from_ref(&stored));
    let after = publish(&mk_pool(), &sent, &stored_forms, &observed).unwrap();
    assert_eq!(after, Vec::<Stage>::new());
}

#[test]
fn a_taint_keeps_the_time_added_by_the_server() {
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
    assert_eq!(steps(&mk_pool(), &[with(taint)], &observed).unwrap(), []);
}

#[test]
fn two_slices_of_a_new_pool_are_written_in_one_stage_and_generation() {
    let devices = mk_numbered(0..100);
    let stages = publish(
        &mk_pool(),
        &devices,
        &StoredForms::default(),
        &BTreeMap::new(),
    )
    .unwrap();
    let [stage] = stages.as_slice() else {
        panic!("{stages:?}")
    };
    let names: Vec<_> = stage
        .iter()
        .map(|step| match step {
            Step::Create(slice) => (name(slice), slice.spec.pool.resource_slice_count),
            step => panic!("{step:?}"),
        })
        .collect();
    let expected = [("00000-d.example.com-n1", 2), ("00001-d.example.com-n1", 2)];
    assert_eq!(names, expected);
    assert_eq!(generations(stage), [1, 1]);
}

// req: KUBELET-40
#[test]
fn a_taint_in_one_of_several_slices_is_one_write_without_a_new_generation() {
    let mut devices = mk_numbered(0..100);
    let observed = mk_observed([
        mk_part(GO_NAME, 5, 2, &devices[..64]),
        mk_part(GO_SECOND, 5, 2, &devices[64..]),
    ]);
    assert_eq!(steps(&mk_pool(), &devices, &observed).unwrap(), []);
    devices[70] = mk_tainted(&devices[70]);
    let steps = steps(&mk_pool(), &devices, &observed).unwrap();
    let [Step::Replace(slice)] = steps.as_slice() else {
        panic!("{steps:?}")
    };
    assert_eq!(name(slice), GO_SECOND);
    assert_eq!(slice.spec.pool.generation, 5);
}

// req: KUBELET-40
#[test]
fn changes_in_two_slices_are_one_new_generation_of_all() {
    let mut devices = mk_numbered(0..130);
    let observed = mk_observed([
        mk_part(GO_NAME, 5, 3, &devices[..64]),
        mk_part(GO_SECOND, 5, 3, &devices[64..128]),
        mk_part("00002-d.example.com-n1-abcde", 5, 3, &devices[128..]),
    ]);
    devices[0] = mk_tainted(&devices[0]);
    devices[70] = mk_tainted(&devices[70]);
    let stages = publish(&mk_pool(), &devices, &StoredForms::default(), &observed).unwrap();
    assert_eq!(stages.len(), 1, "one stage: {stages:?}");
    assert_eq!(generations(&stages[0]), [6, 6, 6]);
}

#[test]
fn a_lost_slice_is_restored_in_the_generation_of_the_others() {
    let devices = mk_numbered(0..100);
    let observed = mk_observed([mk_part(GO_SECOND, 5, 2, &devices[64..])]);
    let steps = steps(&mk_pool(), &devices, &observed).unwrap();
    let [Step::Create(slice)] = steps.as_slice() else {
        panic!("{steps:?}")
    };
    assert_eq!(slice.spec.pool.generation, 5);
    assert_eq!(slice.spec.devices.as_deref(), Some(&devices[..64]));
}

#[test]
fn an_interrupted_change_is_finished_in_its_generation() {
    let devices = mk_numbered(0..100);
    let observed = mk_observed([
        mk_part(GO_NAME, 6, 2, &devices[..64]),
        mk_part(GO_SECOND, 5, 2, &devices[63..64]),
    ]);
    let steps = steps(&mk_pool(), &devices, &observed).unwrap();
    let [Step::Replace(slice)] = steps.as_slice() else {
        panic!("{steps:?}")
    };
    assert_eq!((name(slice), slice.spec.pool.generation), (GO_SECOND, 6));
}

#[test]
fn slices_of_an_old_pool_are_deleted_before_their_devices_are_published() {
    let mut other = mk_slice("00000-d.example.com-old", 3, &[mk_device("a")]);
    other.spec.pool.name = "old".into();
    let stages = publish(
        &mk_pool(),
        &[mk_device("a")],
        &StoredForms::default(),
        &mk_observed([other]),
    )
    .unwrap();
    let [first, second] = stages.as_slice() else {
        panic!("{stages:?}")
    };
    assert!(matches!(first.as_slice(), [Step::Delete(_)]));
    assert!(matches!(second.as_slice(), [Step::Create(_)]));
}

#[test]
fn a_slice_that_is_being_deleted_is_neither_adopted_nor_deleted_again() {
    let mut leaving = mk_slice(GO_NAME, 5, &[mk_device("a")]);
    leaving.metadata.deletion_timestamp = Some(Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH));
    let steps = steps(&mk_pool(), &[mk_device("a")], &mk_observed([leaving])).unwrap();
    assert!(matches!(steps.as_slice(), [Step::Create(_)]), "{steps:?}");
    assert_eq!(generations(&steps), [6]);
}

#[test]
fn a_new_owner_of_several_slices_needs_no_new_generation() {
    let devices = mk_numbered(0..100);
    let observed = mk_observed([
        mk_part(GO_NAME, 5, 2, &devices[..64]),
        mk_part(GO_SECOND, 5, 2, &devices[64..]),
    ]);
    let pool = Pool {
        node_uid: "u-2".into(),
        ..mk_pool()
    };
    let steps = steps(&pool, &devices, &observed).unwrap();
    assert_eq!(generations(&steps), [5, 5]);
}

#[test]
fn invalid_counts_and_generations_are_repaired() {
    let devices = [mk_device("a")];
    for (generation, count) in [(i64::MAX, 1), (0, i64::MAX), (7, 0), (7, -1)] {
        let observed = mk_observed([
            mk_part(GO_NAME, generation, count, &devices),
            mk_part("fffff-d.example.com-n1-abcde", generation, count, &devices),
        ]);
        let mut steps = steps(&mk_pool(), &devices, &observed).unwrap();
        assert!(matches!(steps.pop(), Some(Step::Delete(_))));
        let kept = match steps.pop() {
            Some(Step::Replace(slice)) => slice,
            None => observed[GO_NAME].clone(),
            step => panic!("{step:?}"),
        };
        assert_eq!(kept.spec.pool.resource_slice_count, 1);
        assert!(steps.is_empty());
    }
}

#[test]
fn a_duplicate_name_is_rejected_before_any_request() {
    let devices = [mk_device("a"), mk_device("a")];
    let error = steps(&mk_pool(), &devices, &BTreeMap::new()).unwrap_err();
    assert_eq!(error.code(), "invalid-devices");
    assert!(error.to_string().contains("`a`"), "{error}");
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
