use proptest::prelude::*;

use super::*;

const GPU: &str = "GPU-1";
const SECOND: Millis = 1000;
/// When events happen in these tests.
const NOW: Millis = 1_000_000_000;

fn mk_health() -> Health {
    let settings = HealthSettings {
        ignored: BTreeSet::from([94]),
        clear_after: None,
    };
    Health::new(settings, BTreeMap::new())
}

fn instance(gpu: u32, compute: u32) -> Place {
    Place {
        gpu_instance: Some(gpu),
        compute_instance: Some(compute),
    }
}

fn failed() -> Fact<u32> {
    Fact::Failed(nvml_session::Failure::new(
        "nvmlDeviceGetFieldValues",
        "hangs",
    ))
}

/// The value and effect of the taint for XIDs of a device.
fn taint(health: &Health, device: Option<(u32, u32)>, now: Millis) -> Taint {
    let report = health.report(now);
    let faults = report.faults(GPU, device);
    let xid = faults.into_iter().find(|it| it.key == XID_TAINT)?;
    Some((xid.value.clone().unwrap_or_default(), xid.effect))
}

type Taint = Option<(String, Effect)>;

#[expect(clippy::unnecessary_wraps, reason = "the tests compare it")]
fn keeps_away(code: &str) -> Taint {
    Some((code.to_owned(), Effect::NoSchedule))
}

#[expect(clippy::unnecessary_wraps, reason = "the tests compare it")]
fn informs(code: &str) -> Taint {
    Some((code.to_owned(), Effect::None))
}

// req: GPU-44, GPU-45
#[test]
fn the_recovery_action_decides_whether_an_xid_keeps_claims_away() {
    for (code, action, expected) in [
        (79, Fact::Known(1), keeps_away("79")),
        (79, Fact::Known(2), keeps_away("79")),
        (79, Fact::Known(3), keeps_away("79")),
        (79, Fact::Known(4), keeps_away("79")),
        (79, Fact::Known(6), keeps_away("79")),
        (79, Fact::Known(99), keeps_away("79")),
        (79, Fact::Known(0), informs("79")),
        (79, Fact::Known(5), informs("79")),
        // An application's error, after which the GPU cannot be used all the same.
        (31, Fact::Known(1), keeps_away("31")),
        (31, Fact::Known(0), informs("31")),
        (94, Fact::Known(1), informs("94")),
        // Drivers that know no recovery action.
        (79, Fact::Absent, keeps_away("79")),
        (13, Fact::Absent, informs("13")),
        (31, Fact::Absent, informs("31")),
        (43, Fact::Absent, informs("43")),
        (45, Fact::Absent, informs("45")),
        (68, Fact::Absent, informs("68")),
        (109, Fact::Absent, informs("109")),
        (94, Fact::Absent, informs("94")),
        // The change of the action itself is no error.
        (154, Fact::Known(0), None),
        (154, Fact::Known(1), keeps_away("0")),
    ] {
        let mut health = mk_health();
        health.xid(GPU, Place::GPU, code, NOW);
        health.action(GPU, &action, NOW);
        assert_eq!(taint(&health, None, NOW), expected, "{code}, {action:?}");
    }
}

// req: GPU-44
#[test]
fn an_xid_whose_recovery_action_cannot_be_read_keeps_claims_away_after_a_second() {
    let mut health = mk_health();
    health.xid(GPU, Place::GPU, 79, NOW);
    assert_eq!(taint(&health, None, NOW), None, "the action comes soon");
    assert_eq!(health.next_change(NOW), Some(NOW + SECOND));
    health.action(GPU, &failed(), NOW);
    assert_eq!(taint(&health, None, NOW + SECOND), keeps_away("79"));
    assert!(health.may_change(NOW + SECOND));
    // A reading that began before says nothing about it.
    health.action(GPU, &Fact::Known(0), NOW - 1);
    assert_eq!(taint(&health, None, NOW + SECOND), keeps_away("79"));
    health.action(GPU, &Fact::Known(0), NOW + 1);
    assert_eq!(taint(&health, None, NOW + SECOND), informs("79"));
}

// req: GPU-45
#[test]
fn a_gpu_that_has_recovered_has_no_taint() {
    let mut health = mk_health();
    health.xid(GPU, Place::GPU, 79, NOW);
    health.action(GPU, &Fact::Known(1), NOW);
    assert!(health.wants_reset(GPU));
    health.xid(GPU, Place::GPU, 31, NOW);
    assert_eq!(taint(&health, None, NOW), keeps_away("79"), "the worst");
    health.action(GPU, &failed(), NOW + 1);
    assert_eq!(taint(&health, None, NOW), keeps_away("79"), "no answer");
    health.action(GPU, &Fact::Known(0), NOW + 2);
    assert_eq!(taint(&health, None, NOW), None);
    assert!(!health.wants_reset(GPU) && !health.may_change(NOW));
    health.expire(NOW);
    assert_eq!(health.kept().len(), 0, "nothing is kept of a healthy GPU");
}

// req: GPU-45
#[test]
fn an_action_that_was_there_before_the_plugin_has_the_code_0() {
    let mut health = mk_health();
    health.action(GPU, &Fact::Known(1), NOW);
    assert_eq!(taint(&health, None, NOW), keeps_away("0"));
    // What follows is blamed.
    health.xid(GPU, Place::GPU, 94, NOW);
    assert_eq!(taint(&health, None, NOW), informs("94"));
    health.xid(GPU, Place::GPU, 79, NOW);
    assert_eq!(taint(&health, None, NOW), keeps_away("79"));
}

// req: GPU-44
#[test]
fn an_action_that_follows_its_xid_makes_a_harmless_one_fatal() {
    let mut health = mk_health();
    health.xid(GPU, Place::GPU, 79, NOW);
    health.action(GPU, &Fact::Known(0), NOW);
    assert_eq!(taint(&health, None, NOW), informs("79"));
    assert!(health.may_change(NOW + 5 * SECOND), "it is read again");
    health.action(GPU, &Fact::Known(1), NOW + 5 * SECOND);
    assert_eq!(taint(&health, None, NOW), keeps_away("79"));
}

// req: GPU-46
#[test]
fn a_contained_error_concerns_its_instance_and_a_reset_all() {
    let devices = [Some((1, 0)), Some((2, 0)), Some((2, 1))];
    let taints = |health: &Health| devices.map(|it| taint(health, it, NOW).map(|it| it.0));
    let code = |code: &str| Some(code.to_owned());
    for (place, expected) in [
        (instance(2, 0), [None, code("95"), None]),
        (
            Place {
                gpu_instance: Some(2),
                compute_instance: None,
            },
            [None, code("95"), code("95")],
        ),
        (Place::GPU, [code("95"), code("95"), code("95")]),
    ] {
        for action in [Fact::Absent, Fact::Known(0)] {
            let mut health = mk_health();
            health.xid(GPU, place, 95, NOW);
            health.action(GPU, &action, NOW);
            assert_eq!(taints(&health), expected, "{place:?}");
            assert_eq!(
                health.wants_reset(GPU),
                place == Place::GPU && action == Fact::Absent
            );
        }
        let mut health = mk_health();
        health.xid(GPU, place, 95, NOW);
        health.action(GPU, &Fact::Known(1), NOW);
        assert_eq!(taints(&health), [code("95"), code("95"), code("95")]);
    }
}

// req: GPU-46
#[test]
fn an_instance_that_is_gone_takes_its_xid_along() {
    let mut health = mk_health();
    for place in [instance(1, 0), instance(2, 0)] {
        health.xid(GPU, place, 95, NOW);
    }
    let mut reading = GpuReading {
        uuid: GPU.to_owned(),
        index: Some(0),
        action: Fact::Absent,
        instances: None,
    };
    health.reading(&[reading.clone()], true, NOW);
    assert!(taint(&health, Some((1, 0)), NOW).is_some(), "unknown");
    reading.instances = Some(vec![(2, 0)]);
    health.reading(&[reading.clone()], true, NOW);
    assert_eq!(taint(&health, Some((1, 0)), NOW), None);
    assert_eq!(taint(&health, Some((2, 0)), NOW), keeps_away("95"));
    // A GPU that NVML does not enumerate does not answer.
    reading.index = None;
    reading.action = Fact::Known(0);
    reading.instances = Some(Vec::new());
    health.reading(&[reading], true, NOW);
    assert_eq!(taint(&health, Some((2, 0)), NOW), keeps_away("95"));
    health.reading(&[], false, NOW);
    assert_eq!(health.kept().len(), 1);
    health.reading(&[], true, NOW);
    assert_eq!(health.kept().len(), 0);
}

// req: GPU-45
#[test]
fn xids_expire_after_their_time() {
    let minutes = |it: u64| NOW + it * 60 * SECOND;
    let mut health = mk_health();
    health.xid(GPU, Place::GPU, 31, NOW);
    assert_eq!(health.next_change(NOW), Some(minutes(10)));
    health.expire(minutes(10) - 1);
    assert_eq!(taint(&health, None, NOW), informs("31"));
    health.xid(GPU, Place::GPU, 13, minutes(9));
    health.expire(minutes(10));
    assert_eq!(taint(&health, None, NOW), informs("31"), "renewed");
    health.expire(minutes(19));
    assert_eq!(taint(&health, None, NOW), None);

    let cleared = |clear_after: Option<u64>| {
        let settings = HealthSettings {
            clear_after: clear_after.map(|it| Duration::from_secs(it * 60)),
            ..HealthSettings::default()
        };
        let mut health = Health::new(settings, BTreeMap::new());
        health.xid(GPU, Place::GPU, 79, NOW);
        health.action(GPU, &Fact::Absent, NOW);
        health.expire(minutes(60));
        taint(&health, None, NOW).is_none()
    };
    assert_eq!(
        [None, Some(61), Some(60)].map(cleared),
        [false, false, true]
    );
}

// req: GPU-51
#[test]
fn a_storm_of_xids_changes_nothing_after_the_first() {
    for (codes, action) in [
        ([31, 13], Fact::Known(0)),
        ([119, 120], Fact::Known(0)),
        ([119, 120], Fact::Known(1)),
        ([119, 31], Fact::Absent),
        ([119, 120], failed()),
    ] {
        let mut health = mk_health();
        let mut event = |index: u64| {
            let at = NOW + index * 10;
            let code = codes[usize::try_from(index % 2).unwrap()];
            health.xid(GPU, Place::GPU, code, at);
            health.action(GPU, &action, at);
            (health.kept().clone(), health.report(NOW + SECOND))
        };
        let first = event(0);
        let changes = (1..1000).filter(|index| event(*index) != first).count();
        assert_eq!(changes, 0, "{codes:?}, {action:?}");
    }
    let mut health = mk_health();
    for id in 0..100_000 {
        health.xid(GPU, instance(id, 0), 119, NOW);
    }
    assert!(health.kept()[GPU].places.len() <= MAX_PLACES + 1);
}

#[test]
fn a_gpu_whose_events_are_not_received_says_so() {
    let mut health = mk_health();
    health.unmonitored(BTreeMap::from([(GPU.to_owned(), "no XIDs".to_owned())]));
    let report = health.report(NOW);
    let [fault] = report.faults(GPU, Some((1, 0)))[..] else {
        panic!("{report:?}");
    };
    assert_eq!((fault.key, fault.effect), (UNMONITORED_TAINT, Effect::None));
    assert!(fault.message.contains("no XIDs"), "{}", fault.message);
}

/// An input of the state.
#[derive(Debug, Clone)]
enum Input {
    Xid(u8, u64),
    Action(Fact<u32>),
    Forget,
    Wait(u64),
}

fn any_input() -> impl Strategy<Value = Input> {
    let code = prop::sample::select(vec![31_u64, 79, 94, 119, 154]);
    let action = prop_oneof![
        Just(Fact::Known(0)),
        Just(Fact::Known(1)),
        Just(Fact::Known(5)),
        Just(Fact::Absent),
        Just(failed()),
    ];
    prop_oneof![
        4 => (0..3_u8, code).prop_map(|(place, code)| Input::Xid(place, code)),
        4 => action.prop_map(Input::Action),
        1 => Just(Input::Forget),
        2 => prop::sample::select(vec![1_u64, 700]).prop_map(Input::Wait),
    ]
}

/// A model that keeps every XID.
#[derive(Debug, Default)]
struct Model {
    /// Time, place, code; whether it waits for an answer, and whether the driver knows no answers.
    xids: Vec<(Millis, u8, u64, bool, bool)>,
    action: Option<u32>,
    /// What may be to blame for an action.
    blamed: Vec<u64>,
}

impl Model {
    fn apply(&mut self, now: Millis, input: &Input) {
        let is_bad = self.action == Some(1);
        match input {
            Input::Xid(_, 154) | Input::Wait(_) | Input::Action(Fact::Failed(_)) => {}
            Input::Xid(place, code) => {
                let waits = [79, 119].contains(code);
                self.xids.push((now, *place, *code, waits, false));
                if is_bad {
                    self.blamed.push(*code);
                }
            }
            Input::Forget => *self = Self::default(),
            Input::Action(Fact::Known(1)) => {
                if !is_bad {
                    self.blamed = self.xids.iter().map(|it| it.2).collect();
                }
                self.action = Some(1);
            }
            Input::Action(Fact::Known(action)) => {
                if is_bad || (self.action == Some(5) && *action == 0) {
                    self.xids.clear();
                }
                for xid in &mut self.xids {
                    if xid.3 {
                        xid.0 = now;
                    }
                    (xid.3, xid.4) = (false, false);
                }
                self.action = Some(*action);
            }
            Input::Action(Fact::Absent) => {
                for xid in &mut self.xids {
                    (xid.3, xid.4) = (false, xid.3 || xid.4);
                }
                self.action = None;
            }
        }
        self.xids
            .retain(|it| it.3 || it.4 || now < it.0 + HARMLESS_FOR);
    }

    fn is_kept_away(&self, now: Millis, device: u8) -> bool {
        let is_blamed = self.blamed.is_empty() || self.blamed.iter().any(|it| *it != 94);
        let here = self.xids.iter().filter(|it| [0, device].contains(&it.1));
        let fatal = here.filter(|it| it.4 || (it.3 && now >= it.0 + ACTION_WITHIN));
        (self.action == Some(1) && is_blamed) || fatal.count() > 0
    }
}

proptest! {
    // req: GPU-44, GPU-45, GPU-46
    #[test]
    fn a_device_is_tainted_as_a_model_that_keeps_all_inputs_says(
        steps in prop::collection::vec(any_input(), 0..40),
        knows_actions: bool,
    ) {
        // A driver knows recovery actions or not; to change that, it is loaded again.
        let is_possible = |it: &Input| match it {
            Input::Action(Fact::Absent) => !knows_actions,
            Input::Action(Fact::Known(_)) => knows_actions,
            _ => true,
        };
        let steps: Vec<Input> = steps.into_iter().filter(is_possible).collect();
        let mut health = mk_health();
        let (mut model, mut now) = (Model::default(), NOW);
        for step in steps {
            now += 1;
            match &step {
                Input::Xid(0, code) => health.xid(GPU, Place::GPU, *code, now),
                Input::Xid(number, code) => {
                    health.xid(GPU, instance((*number).into(), 0), *code, now);
                }
                Input::Action(action) => health.action(GPU, action, now),
                Input::Forget => health.forget(),
                Input::Wait(seconds) => now += seconds * SECOND,
            }
            model.apply(now, &step);
            health.expire(now);
            // A restart forgets nothing.
            let text = serde_json::to_string(health.kept()).unwrap();
            health = Health::new(health.settings, serde_json::from_str(&text).unwrap());
            for device in 1..3_u8 {
                let taint = taint(&health, Some((device.into(), 0)), now);
                let is_kept_away = taint.is_some_and(|it| it.1 == Effect::NoSchedule);
                let expected = model.is_kept_away(now, device);
                prop_assert_eq!(is_kept_away, expected, "{} after {:?}: {:?}", device, step, model);
            }
        }
    }
}
