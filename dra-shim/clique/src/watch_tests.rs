use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, TryLockError};
use std::time::Duration;

use super::*;
use crate::gpu::{FabricState, GpuRef};
use crate::root::NotFound;
use crate::{CliqueId, ClusterUuid, NoLibrary};

const GIVE_UP: Duration = Duration::from_secs(30);

/// Answers each read with what the test hands over, and hangs until it does.
struct Scripted {
    begun: Sender<()>,
    answers: Mutex<Receiver<Answer>>,
}

impl FabricProbe for Scripted {
    fn read(&self) -> Answer {
        self.begun.send(()).unwrap();
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(answer) = answers.recv() else {
            panic!("the script has ended");
        };
        answer
    }

    fn call_under_way(&self) -> Option<&'static str> {
        let reading = matches!(self.answers.try_lock(), Err(TryLockError::WouldBlock));
        reading.then_some("answers")
    }
}

struct Scene {
    watch: FabricWatch,
    begun: Receiver<()>,
    answers: Sender<Answer>,
    changes: Receiver<Reading>,
}

fn scene(config: WatchConfig) -> Scene {
    let (begun_to, begun) = channel();
    let (answers, answers_from) = channel();
    let (changes_to, changes) = channel();
    let probe = Scripted {
        begun: begun_to,
        answers: Mutex::new(answers_from),
    };
    let watch = FabricWatch::spawn(probe, config, move |reading| {
        // The test may have ended.
        let _ = changes_to.send(reading.clone());
    })
    .unwrap();
    Scene {
        watch,
        begun,
        answers,
        changes,
    }
}

/// Reads at once again, and calls nothing hung.
fn eager() -> WatchConfig {
    WatchConfig::default()
        .unsettled(Duration::ZERO)
        .settled(Duration::ZERO)
        .hung_after(GIVE_UP * 10)
}

impl Scene {
    fn change(&self) -> Reading {
        self.changes.recv_timeout(GIVE_UP).unwrap()
    }

    fn read_begins(&self) {
        self.begun.recv_timeout(GIVE_UP).unwrap();
    }
}

fn mk_gpus(clique_id: u32) -> Vec<Gpu> {
    vec![Gpu {
        id: GpuRef {
            index: 0,
            uuid: None,
        },
        name: None,
        fabric: FabricState::Completed {
            cluster: ClusterUuid([7; 16]),
            clique_id,
        },
        health: None,
    }]
}

fn no_library() -> ProbeError {
    ProbeError::NoLibrary(NoLibrary::Missing(NotFound {
        name: "libnvidia-ml.so.1".to_owned(),
        root: "/".into(),
        rejected: Vec::new(),
    }))
}

#[test]
fn before_the_first_answer_there_is_a_value_that_says_so() {
    let scene = scene(eager());
    let reading = scene.watch.last();
    assert_eq!(reading.fabric, Fabric::Unsettled(Unsettled::NotReadYet));
    assert_eq!((reading.gpus, reading.age), (None, None));
}

#[test]
fn a_library_that_appears_and_vanishes_is_two_changes_and_the_gpus_are_remembered() {
    let scene = scene(eager());
    scene.answers.send(Err(no_library())).unwrap();
    let missing = scene.change();
    assert_eq!(missing.fabric.code(), "nvml-missing");
    assert_eq!(missing.gpus, None, "never enumerated");

    scene.answers.send(Ok(mk_gpus(4))).unwrap();
    let id = CliqueId {
        cluster: ClusterUuid([7; 16]),
        id: 4,
    };
    assert_eq!(scene.change().fabric.clique(), Some(id));
    assert!(scene.watch.last().age.is_some());

    scene.answers.send(Err(no_library())).unwrap();
    let lost = scene.change();
    assert_eq!(lost.fabric.code(), "nvml-missing");
    assert_eq!(lost.gpus.as_deref(), Some(&*mk_gpus(4)), "lost, not absent");
}

#[test]
fn the_same_answer_again_is_no_change() {
    let scene = scene(eager());
    for _ in 0..3 {
        scene.answers.send(Ok(mk_gpus(1))).unwrap();
    }
    scene.answers.send(Ok(mk_gpus(2))).unwrap();
    assert_eq!(scene.change().fabric.clique().map(|it| it.id), Some(1));
    assert_eq!(scene.change().fabric.clique().map(|it| it.id), Some(2));
}

#[test]
fn a_hang_is_reported_never_doubled_and_ends_with_the_answer() {
    let scene = scene(eager().hung_after(Duration::from_millis(20)));
    scene.read_begins();
    let hung = scene.change();
    assert_eq!(hung.fabric.code(), "nvml-no-answer");
    assert!(
        hung.fabric
            .to_string()
            .starts_with("no answer from NVML for ")
    );
    // Many pauses later there is still one read only.
    let again = scene.begun.recv_timeout(Duration::from_millis(300));
    assert!(again.is_err(), "a second read beside the hung one");
    let Fabric::NoAnswer { waited, call } = scene.watch.last().fabric else {
        panic!("{:?}", scene.watch.last())
    };
    assert!(waited >= Duration::from_millis(300), "{waited:?}");
    assert_eq!(call, Some("answers"));

    scene.answers.send(Ok(mk_gpus(1))).unwrap();
    assert_eq!(scene.change().fabric.code(), "clique");
    scene.read_begins();
}

#[test]
fn a_hang_after_an_answer_hides_it_and_the_same_answer_brings_it_back() {
    let scene = scene(eager().hung_after(Duration::from_millis(20)));
    scene.answers.send(Ok(mk_gpus(1))).unwrap();
    while scene.change().fabric.code() != "clique" {}
    assert_eq!(scene.change().fabric.code(), "nvml-no-answer");
    assert_eq!(scene.watch.last().gpus.as_deref(), Some(&*mk_gpus(1)));
    scene.answers.send(Ok(mk_gpus(1))).unwrap();
    assert_eq!(scene.change().fabric.code(), "clique");
}

#[test]
fn a_settled_value_is_read_slowly_and_an_unsettled_one_fast() {
    let scene = scene(eager().settled(GIVE_UP * 10));
    scene.read_begins();
    scene.answers.send(Err(no_library())).unwrap();
    scene.read_begins();
    scene.answers.send(Ok(mk_gpus(1))).unwrap();
    while scene.change().fabric.code() != "clique" {}
    let early = scene.begun.recv_timeout(Duration::from_millis(200));
    assert!(early.is_err(), "read again although settled");
}

#[test]
fn a_probe_that_panics_is_a_value_and_is_asked_again() {
    let scene = scene(eager());
    drop(scene.answers);
    let reading = scene.changes.recv_timeout(GIVE_UP).unwrap();
    assert_eq!(reading.fabric.code(), "nvml-probe-panicked");
    assert_eq!(
        reading.fabric.to_string(),
        "the probe panicked: the script has ended"
    );
    for _ in 0..2 {
        scene.begun.recv_timeout(GIVE_UP).unwrap();
    }
}

#[test]
fn a_callback_that_panics_does_not_end_the_watch() {
    let (begun, _begun) = channel();
    let (answers, answers_from) = channel();
    let (changes_to, changes) = channel();
    let probe = Scripted {
        begun,
        answers: Mutex::new(answers_from),
    };
    let _watch = FabricWatch::spawn(probe, eager(), move |reading| {
        // The test may have ended.
        let _ = changes_to.send(reading.clone());
        assert_ne!(reading.fabric.code(), "nvml-missing", "on purpose");
    })
    .unwrap();
    answers.send(Err(no_library())).unwrap();
    answers.send(Ok(mk_gpus(1))).unwrap();
    for code in ["nvml-missing", "clique"] {
        let reading = changes.recv_timeout(GIVE_UP).unwrap();
        assert_eq!(reading.fabric.code(), code);
    }
}

/// Hangs as [`Scripted`] does, and panics when it is asked in what.
struct Lost {
    asked: Sender<()>,
    answers: Mutex<Receiver<Answer>>,
}

impl FabricProbe for Lost {
    fn read(&self) -> Answer {
        self.answers.lock().unwrap().recv().unwrap()
    }

    fn call_under_way(&self) -> Option<&'static str> {
        self.asked.send(()).unwrap();
        panic!("on purpose");
    }
}

#[test]
fn a_probe_that_panics_when_asked_where_it_hangs_does_not_end_the_watch() {
    let (asked_to, asked) = channel();
    let (answers, answers_from) = channel();
    let (changes_to, changes) = channel();
    let probe = Lost {
        asked: asked_to,
        answers: Mutex::new(answers_from),
    };
    let config = eager().hung_after(Duration::ZERO);
    let _watch = FabricWatch::spawn(probe, config, move |reading| {
        // The test may have ended.
        let _ = changes_to.send(reading.clone());
    })
    .unwrap();
    asked.recv_timeout(GIVE_UP).unwrap();
    answers.send(Ok(mk_gpus(1))).unwrap();
    let reading = changes.recv_timeout(GIVE_UP).unwrap();
    assert_eq!(reading.fabric.code(), "clique");
}

#[test]
fn dropping_the_watch_ends_it_even_while_a_read_hangs() {
    let scene = scene(eager());
    scene.read_begins();
    let shared = Arc::downgrade(&scene.watch.shared);
    drop(scene.watch);
    // The watching thread is gone when its callback is.
    let ended = scene.changes.recv_timeout(GIVE_UP);
    assert!(ended.is_err(), "{ended:?}");
    drop(scene.answers);
    let give_up = Instant::now() + GIVE_UP;
    while shared.strong_count() > 0 {
        assert!(Instant::now() < give_up, "the watch is still held");
        thread::yield_now();
    }
}
