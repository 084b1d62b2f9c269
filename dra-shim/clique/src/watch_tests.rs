use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, TryLockError};
use std::time::{Duration, Instant};

use super::*;
use crate::gpu::{GpuFabricState, GpuRef};
use crate::{CliqueId, ClusterUuid, DriverFileNotFound, NoLibrary, NodeFabricState, Pending};

const GIVE_UP: Duration = Duration::from_secs(30);

/// A probe whose reads return what the test sends, and hang until then.
struct Scripted {
    begun: Sender<()>,
    answers: Mutex<Receiver<ReadResult>>,
}

impl FabricProbe for Scripted {
    fn read(&self) -> ReadResult {
        self.begun.send(()).unwrap();
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(result) = answers.recv() else {
            panic!("the script has ended");
        };
        result
    }

    fn current_call(&self) -> Option<&'static str> {
        let reading = matches!(self.answers.try_lock(), Err(TryLockError::WouldBlock));
        reading.then_some("answers")
    }
}

struct Fixture {
    watch: FabricWatch,
    begun: Receiver<()>,
    answers: Sender<ReadResult>,
    changes: Receiver<Reading>,
}

fn fixture(config: WatchConfig) -> Fixture {
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
    Fixture {
        watch,
        begun,
        answers,
        changes,
    }
}

/// Settings without a pause and without a timeout of reads.
fn eager() -> WatchConfig {
    WatchConfig::default()
        .pending_pause(Duration::ZERO, Duration::ZERO)
        .final_pause(Duration::ZERO, Duration::ZERO)
        .hung_after(GIVE_UP * 10)
}

impl Fixture {
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
        fabric: GpuFabricState::Completed {
            cluster: ClusterUuid([7; 16]),
            clique_id,
        },
        health: None,
    }]
}

fn no_library() -> ProbeError {
    ProbeError::NoLibrary(NoLibrary::Missing(DriverFileNotFound {
        name: "libnvidia-ml.so.1".to_owned(),
        root: "/".into(),
        nested: &[],
        rejected: Vec::new(),
    }))
}

#[test]
fn the_reading_before_the_first_result_is_not_read_yet() {
    let fixture = fixture(eager());
    let reading = fixture.watch.latest();
    assert_eq!(reading.fabric, Fabric::Pending(Pending::NotReadYet));
    assert_eq!(reading.state, NodeFabricState::NotReadYet);
    assert_eq!(reading.gpus, None);
}

#[test]
fn a_library_that_appears_and_vanishes_is_two_changes_and_the_gpus_are_kept() {
    let fixture = fixture(eager());
    fixture.answers.send(Err(no_library())).unwrap();
    let missing = fixture.change();
    assert_eq!(missing.fabric.code(), "nvml-missing");
    assert_eq!(missing.state, NodeFabricState::NoLibrary);
    assert_eq!(missing.gpus, None, "never enumerated");

    fixture.answers.send(Ok(mk_gpus(4))).unwrap();
    let id = CliqueId {
        cluster: ClusterUuid([7; 16]),
        id: 4,
    };
    assert_eq!(fixture.change().fabric.clique(), Some(id));

    fixture.answers.send(Err(no_library())).unwrap();
    let lost = fixture.change();
    assert_eq!(lost.fabric.code(), "nvml-missing");
    assert_eq!(lost.state, NodeFabricState::LibraryLost);
    assert_eq!(lost.gpus.as_deref(), Some(&*mk_gpus(4)), "lost, not absent");
}

#[test]
fn the_same_result_again_is_no_change() {
    let fixture = fixture(eager());
    for _ in 0..3 {
        fixture.answers.send(Ok(mk_gpus(1))).unwrap();
    }
    fixture.answers.send(Ok(mk_gpus(2))).unwrap();
    assert_eq!(fixture.change().fabric.clique().map(|it| it.id), Some(1));
    assert_eq!(fixture.change().fabric.clique().map(|it| it.id), Some(2));
}

// req: NODE-35
#[test]
fn a_hang_is_reported_without_a_second_read_and_ends_with_the_result() {
    let fixture = fixture(eager().hung_after(Duration::from_millis(20)));
    fixture.read_begins();
    let hung = fixture.change();
    assert_eq!(hung.fabric.code(), "nvml-no-answer");
    assert!(
        hung.fabric
            .to_string()
            .starts_with("NVML has not responded for ")
    );
    // Many pauses later there is still only one read.
    let again = fixture.begun.recv_timeout(Duration::from_millis(300));
    assert!(again.is_err(), "a second read beside the hung one");
    let Fabric::NoAnswer { waited, call } = fixture.watch.latest().fabric else {
        panic!("{:?}", fixture.watch.latest())
    };
    assert!(waited >= Duration::from_millis(300), "{waited:?}");
    assert_eq!(call, Some("answers"));

    fixture.answers.send(Ok(mk_gpus(1))).unwrap();
    assert_eq!(fixture.change().fabric.code(), "clique");
    fixture.read_begins();
}

#[test]
fn a_hang_hides_the_last_result_and_the_same_result_shows_it_again() {
    let fixture = fixture(eager().hung_after(Duration::from_millis(20)));
    fixture.answers.send(Ok(mk_gpus(1))).unwrap();
    while fixture.change().fabric.code() != "clique" {}
    assert_eq!(fixture.change().fabric.code(), "nvml-no-answer");
    assert_eq!(fixture.watch.latest().gpus.as_deref(), Some(&*mk_gpus(1)));
    fixture.answers.send(Ok(mk_gpus(1))).unwrap();
    assert_eq!(fixture.change().fabric.code(), "clique");
}

#[test]
fn a_final_state_is_read_slowly_and_a_pending_one_fast() {
    let fixture = fixture(eager().final_pause(Duration::ZERO, GIVE_UP * 10));
    fixture.read_begins();
    fixture.answers.send(Err(no_library())).unwrap();
    fixture.read_begins();
    fixture.answers.send(Ok(mk_gpus(1))).unwrap();
    while fixture.change().fabric.code() != "clique" {}
    let early = fixture.begun.recv_timeout(Duration::from_millis(200));
    assert!(early.is_err(), "read again although final");
}

#[test]
fn a_requested_read_begins_before_the_end_of_the_pause() {
    let long = GIVE_UP * 10;
    let fixture = fixture(eager().final_pause(Duration::ZERO, long));
    fixture.answers.send(Ok(mk_gpus(1))).unwrap();
    assert_eq!(fixture.change().fabric.code(), "clique");
    fixture.answers.send(Ok(mk_gpus(2))).unwrap();
    fixture.watch.read_soon();
    assert_eq!(fixture.change().fabric.clique().map(|it| it.id), Some(2));
}

#[test]
fn many_requests_keep_the_shortest_pause() {
    let long = GIVE_UP * 10;
    let fixture = fixture(eager().final_pause(long, long));
    fixture.read_begins();
    for _ in 0..100 {
        fixture.watch.read_soon();
    }
    fixture.answers.send(Ok(mk_gpus(1))).unwrap();
    assert_eq!(fixture.change().fabric.code(), "clique");
    for _ in 0..100 {
        fixture.watch.read_soon();
    }
    let early = fixture.begun.recv_timeout(Duration::from_millis(200));
    assert!(early.is_err(), "read again although just read");
    // A host that has changed does not wait.
    fixture.watch.read_now();
    fixture.read_begins();
}

#[test]
fn a_change_of_the_host_during_a_read_leads_to_another_read() {
    let long = GIVE_UP * 10;
    let fixture = fixture(eager().final_pause(long, long));
    fixture.read_begins();
    fixture.watch.read_now();
    fixture.answers.send(Ok(mk_gpus(1))).unwrap();
    fixture.answers.send(Ok(mk_gpus(2))).unwrap();
    assert_eq!(fixture.change().fabric.clique().map(|it| it.id), Some(1));
    assert_eq!(fixture.change().fabric.clique().map(|it| it.id), Some(2));
}

#[test]
fn a_request_during_a_hang_does_not_start_a_second_read() {
    let fixture = fixture(eager().hung_after(Duration::from_millis(50)));
    fixture.read_begins();
    for _ in 0..10 {
        fixture.watch.read_soon();
    }
    assert_eq!(fixture.change().fabric.code(), "nvml-no-answer");
    fixture.watch.read_soon();
    let again = fixture.begun.recv_timeout(Duration::from_millis(200));
    assert!(again.is_err(), "a second read beside the hung one");
    fixture.answers.send(Ok(mk_gpus(1))).unwrap();
    assert_eq!(fixture.change().fabric.code(), "clique");
}

#[test]
fn a_panic_of_the_probe_is_reported_and_the_probe_is_called_again() {
    let fixture = fixture(eager());
    drop(fixture.answers);
    let reading = fixture.changes.recv_timeout(GIVE_UP).unwrap();
    assert_eq!(reading.fabric.code(), "nvml-probe-panicked");
    assert_eq!(
        reading.fabric.to_string(),
        "the probe panicked: the script has ended"
    );
    for _ in 0..2 {
        fixture.begun.recv_timeout(GIVE_UP).unwrap();
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

/// A probe that hangs like [`Scripted`], and panics in `current_call`.
struct PanicsInCurrentCall {
    asked: Sender<()>,
    answers: Mutex<Receiver<ReadResult>>,
}

impl FabricProbe for PanicsInCurrentCall {
    fn read(&self) -> ReadResult {
        self.answers.lock().unwrap().recv().unwrap()
    }

    fn current_call(&self) -> Option<&'static str> {
        self.asked.send(()).unwrap();
        panic!("on purpose");
    }
}

#[test]
fn a_panic_in_current_call_does_not_end_the_watch() {
    let (asked_to, asked) = channel();
    let (answers, answers_from) = channel();
    let (changes_to, changes) = channel();
    let probe = PanicsInCurrentCall {
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
    let fixture = fixture(eager());
    fixture.read_begins();
    let shared = Arc::downgrade(&fixture.watch.shared);
    drop(fixture.watch);
    // The watch thread has ended when its callback is dropped.
    let ended = fixture.changes.recv_timeout(GIVE_UP);
    assert!(ended.is_err(), "{ended:?}");
    drop(fixture.answers);
    let give_up = Instant::now() + GIVE_UP;
    while shared.strong_count() > 0 {
        assert!(Instant::now() < give_up, "the watch is still held");
        thread::yield_now();
    }
}
