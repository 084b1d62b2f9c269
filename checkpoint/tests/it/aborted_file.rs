//! The second file: aborted records of a driver that has none in its checkpoint.

use std::sync::Arc;

use dra_checkpoint::lifecycle::Phase;
use dra_checkpoint::{
    ABORTED_FILE, Boot, BootId, CHECKPOINT_FILE, Checkpoint, Claims, CommitError, Damage,
    DamageReason, KubeletDevice, Payload, Refused, State, Store, Survivors,
};
use durable_file::{Dir, OsDir, SimDir, Step, sim};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::common::{
    BOOT, TestPayload, TwoFiles, at, boot, claim, dir_with, fixture, open_as, rewritten, status,
};
use crate::script::{Commit, check, run_all, summary};

type Committed = Result<(), CommitError<Refused>>;

fn open(dir: &SimDir) -> Store<TwoFiles> {
    let (store, damage) = open_as(dir);
    assert_eq!(damage, Damage::None);
    store
}

fn start(store: &Store<TwoFiles>, uid: &'static str, pod: &'static str) -> Committed {
    store.commit(move |claims| claims.start(&claim(uid), &status(pod), at(0)))
}

fn complete(store: &Store<TwoFiles>, uid: &'static str, pod: &'static str) -> Committed {
    store.commit(move |claims| claims.complete(uid, &status(pod), vec![TwoFiles::any()]))
}

fn abort(store: &Store<TwoFiles>, uid: &'static str) -> Committed {
    store.commit(move |claims| claims.abort(uid, at(0)))
}

/// A directory with the started claim `a` and the aborted claim `b` of the pod `p`.
fn with_aborted() -> (SimDir, Store<TwoFiles>) {
    let dir = SimDir::new();
    let store = open(&dir);
    start(&store, "a", "p").unwrap();
    start(&store, "b", "p").unwrap();
    abort(&store, "b").unwrap();
    (dir, store)
}

/// UID and state's name of each claim in a file.
fn states(dir: &SimDir, file: &str) -> Vec<(String, &'static str)> {
    let bytes = dir.read(file).unwrap().unwrap();
    let read = Checkpoint::<Box<RawValue>>::decode(&bytes).unwrap();
    let claims = read.claims();
    claims
        .map(|(uid, record)| (uid.to_owned(), record.state.name()))
        .collect()
}

/// Whether the late Prepare of `b` is refused.
fn is_fenced(store: &Store<TwoFiles>) -> bool {
    let late = store.commit(|claims| {
        claims.start(&claim("b"), &status("p"), at(1))?;
        // Rolled back.
        claims.abort("nobody", at(1))
    });
    let Err(CommitError::Refused(refused)) = late else {
        panic!("{late:?}")
    };
    matches!(refused, Refused::Aborted { .. })
}

/// The files that a commit replaces or removes, in this order.
fn written(dir: &SimDir, commit: impl FnOnce() -> Committed) -> Vec<String> {
    let before = dir.steps().len();
    commit().unwrap();
    let steps = dir.steps().split_off(before);
    let files = steps.into_iter().filter_map(|step| match step {
        Step::Rename(_, file) => Some(file),
        Step::Remove(file) => Some(format!("-{file}")),
        _ => None,
    });
    files.collect()
}

// req: CKPT-19
#[test]
fn an_aborted_record_is_in_the_second_file_only() {
    let (dir, store) = with_aborted();
    assert_eq!(
        states(&dir, CHECKPOINT_FILE),
        [("a".into(), "PrepareStarted")]
    );
    assert_eq!(states(&dir, ABORTED_FILE), [("b".into(), "PrepareAborted")]);
    assert_eq!(dir.mode(ABORTED_FILE), Some(0o600));
    assert!(is_fenced(&store));
    let again = open(&dir);
    assert_eq!(summary(&again), summary(&store));
    assert!(is_fenced(&again));
}

// req: CKPT-20
#[test]
fn only_a_commit_that_changes_aborted_records_writes_the_second_file() {
    let dir = SimDir::new();
    let store = open(&dir);
    for _ in 0..2 {
        assert_eq!(written(&dir, || start(&store, "a", "p")), [CHECKPOINT_FILE]);
        assert_eq!(
            written(&dir, || complete(&store, "a", "p")),
            [CHECKPOINT_FILE]
        );
        let remove = || store.commit(|claims| claims.remove("a"));
        assert_eq!(written(&dir, remove), [CHECKPOINT_FILE]);
        assert!(dir.read(ABORTED_FILE).unwrap().is_none());

        start(&store, "b", "p").unwrap();
        start(&store, "c", "p").unwrap();
        let becomes = [ABORTED_FILE, CHECKPOINT_FILE];
        assert_eq!(written(&dir, || abort(&store, "b")), becomes);
        assert_eq!(written(&dir, || abort(&store, "c")), becomes);
        assert_eq!(written(&dir, || abort(&store, "c")), [""; 0]);
        assert_eq!(written(&dir, || start(&store, "a", "p")), [CHECKPOINT_FILE]);
        assert_eq!(
            written(&dir, || complete(&store, "a", "p")),
            [CHECKPOINT_FILE]
        );
        let remove = || store.commit(|claims| claims.remove("a"));
        assert_eq!(written(&dir, remove), [CHECKPOINT_FILE]);

        let leaves = [CHECKPOINT_FILE, ABORTED_FILE];
        assert_eq!(written(&dir, || start(&store, "c", "q")), leaves);
        let removed = format!("-{ABORTED_FILE}");
        let leaves = [CHECKPOINT_FILE, &removed];
        assert_eq!(written(&dir, || start(&store, "b", "q")), leaves);
        for uid in ["b", "c"] {
            abort(&store, uid).unwrap();
        }
        let expire = || {
            store.commit(|claims| {
                claims.expire(at(100));
                Ok(())
            })
        };
        assert_eq!(written(&dir, expire), [removed.as_str(), CHECKPOINT_FILE]);
    }
}

// req: CKPT-7
#[test]
fn after_a_failed_last_fsync_of_the_second_file_the_next_commit_writes_it_again() {
    let (dir, store) = with_aborted();
    let until_the_directory_sync = 4;
    dir.fail_step(until_the_directory_sync, 5);
    let failed = store.commit(|claims| {
        claims.start(&claim("c"), &status("p"), at(0))?;
        claims.abort("c", at(0))
    });
    failed.unwrap_err();
    assert_eq!(states(&dir, ABORTED_FILE).len(), 2, "it is visible");
    let read = || store.commit(|_| Ok(()));
    assert_eq!(written(&dir, read), [ABORTED_FILE, CHECKPOINT_FILE]);
    assert_eq!(written(&dir, read), [""; 0]);
}

// req: CKPT-20
#[test]
fn a_record_in_both_files_counts_as_in_the_checkpoint() {
    let (dir, store) = with_aborted();
    let stale = dir.read(ABORTED_FILE).unwrap().unwrap();
    start(&store, "b", "q").unwrap();
    // As after a crash before its removal.
    dir.replace(ABORTED_FILE, &stale, 0o600).unwrap();
    let store = open(&dir);
    assert_eq!(store.view().get("b").unwrap().state, State::Started);
    assert!(dir.read(ABORTED_FILE).unwrap().is_some());
    complete(&store, "b", "q").unwrap();
    assert!(dir.read(ABORTED_FILE).unwrap().is_none());
    store.commit(|claims| claims.remove("b")).unwrap();
    assert!(open(&dir).view().get("b").is_none());
}

#[test]
fn a_record_in_the_second_file_that_is_not_aborted_is_ignored() {
    let dir = SimDir::new();
    let store = open(&dir);
    start(&store, "a", "p").unwrap();
    complete(&store, "a", "p").unwrap();
    dir.replace(ABORTED_FILE, &rewritten(&dir), 0o600).unwrap();
    store.commit(|claims| claims.remove("a")).unwrap();
    assert_eq!(open(&dir).view().records_unchecked().count(), 0);
}

/// A life of a claim that ends twice as aborted, and once as prepared and removed.
const LIFE: &[Commit<TwoFiles>] = &[
    |store| start(store, "b", "q"),
    |store| abort(store, "b"),
    |store| start(store, "b", "r"),
    |store| complete(store, "b", "r"),
    |store| store.commit(|claims| claims.remove("b")),
];

// req: CKPT-20
#[test]
fn a_record_that_a_crash_left_in_the_second_file_does_not_return_after_the_next_crash() {
    let mut checked = 0;
    sim::enumerate(
        |dir| {
            run_all(&open(dir), LIFE, || dir.acknowledge());
        },
        |crash| {
            let (dir, rest) = (&crash.dir, &LIFE[crash.acknowledged..]);
            let store = open(dir);
            // Only now is the state that the first crash left durable.
            dir.acknowledge();
            let mut states = run_all(&store, rest, || dir.acknowledge());
            states.insert(0, Vec::new());
            for next in dir.crashes().filter(|next| next.acknowledged > 0) {
                check(&next, &states).unwrap_or_else(|error| panic!("{crash}, then {error}"));
                checked += 1;
            }
        },
    );
    println!("two crashes: {checked} states");
    assert!(checked > 1000, "{checked}");
}

// req: CKPT-20
#[test]
fn after_a_crash_in_a_commit_of_several_claims_each_has_its_old_or_new_record() {
    let prepare = |store: &Store<TwoFiles>| {
        for uid in ["becomes", "leaves", "expires"] {
            start(store, uid, "p").unwrap();
        }
        store.commit(|claims| claims.abort("leaves", at(100)))?;
        store.commit(|claims| claims.abort("expires", at(0)))
    };
    let change = |store: &Store<TwoFiles>| {
        store.commit(|claims| {
            claims.abort("becomes", at(100))?;
            claims.start(&claim("leaves"), &status("q"), at(100))?;
            claims.start(&claim("new"), &status("q"), at(100))?;
            claims.expire(at(100));
            Ok::<_, Refused>(())
        })
    };
    let reference = open(&SimDir::new());
    prepare(&reference).unwrap();
    let old = summary(&reference);
    change(&reference).unwrap();
    let new = summary(&reference);
    sim::enumerate(
        |dir| {
            let store = open(dir);
            prepare(&store).unwrap();
            dir.acknowledge();
            change(&store).unwrap();
            dir.acknowledge();
        },
        |crash| {
            let found = summary(&open(&crash.dir));
            for uid in ["becomes", "leaves", "expires", "new"] {
                let of = |records: &Vec<(String, State<TwoFiles>)>| {
                    let record = records.iter().find(|(other, _)| other == uid);
                    record.map(|(_, state)| state.clone())
                };
                let allowed = match crash.acknowledged {
                    0 => continue,
                    1 => vec![of(&old), of(&new)],
                    _ => vec![of(&new)],
                };
                assert!(allowed.contains(&of(&found)), "{crash}: {uid}: {found:?}");
            }
        },
    );
}

// req: CKPT-20
#[test]
fn after_a_crash_of_two_processes_the_state_in_two_files_is_old_or_new() {
    let reference = open(&SimDir::new());
    let states = run_all(&reference, LIFE, || {});
    sim::enumerate(
        |dir| {
            let processes = [open(dir), open(dir)];
            for (process, commit) in processes.iter().cycle().zip(LIFE) {
                commit(process).unwrap();
                dir.acknowledge();
            }
        },
        |crash| check(crash, &states).unwrap(),
    );
}

// req: CKPT-9
#[test]
fn a_commit_sees_the_aborted_records_of_another_process() {
    let (dir, ours) = with_aborted();
    let theirs = open(&dir);
    start(&theirs, "c", "p").unwrap();
    abort(&theirs, "c").unwrap();
    assert_eq!(written(&dir, || abort(&ours, "c")), [""; 0]);
    start(&ours, "b", "q").unwrap();
    start(&ours, "c", "q").unwrap();
    assert!(!is_fenced(&theirs));
    assert_eq!(summary(&theirs), summary(&ours));
}

// req: CKPT-20
#[test]
fn what_another_process_wrote_to_the_second_file_before_it_died_does_not_count_later() {
    let (dir, _) = with_aborted();
    let of_the_dead = dir.read(ABORTED_FILE).unwrap().unwrap();

    let dir = SimDir::new();
    let ours = open(&dir);
    start(&ours, "b", "q").unwrap();
    dir.replace(ABORTED_FILE, &of_the_dead, 0o600).unwrap();
    complete(&ours, "b", "q").unwrap();
    ours.commit(|claims| claims.remove("b")).unwrap();
    assert!(open(&dir).view().get("b").is_none());
}

// req: CKPT-21
#[test]
fn a_damaged_second_file_is_renamed_and_loses_only_the_fences() {
    let torn = |bytes: Vec<u8>| bytes[..bytes.len() - 9].to_vec();
    let respelled = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).unwrap();
        text.replace("claim-b", "claim-x").into_bytes()
    };
    for (damage, code) in [
        (&torn as &dyn Fn(Vec<u8>) -> Vec<u8>, "not-json"),
        (&respelled, "v2-checksum"),
        (&|_| Vec::new(), "empty"),
        (&|_| b"[]".to_vec(), "layout"),
    ] {
        let (dir, store) = with_aborted();
        let damaged = damage(dir.read(ABORTED_FILE).unwrap().unwrap());
        dir.replace(ABORTED_FILE, &damaged, 0o600).unwrap();
        for store in [open(&dir), store] {
            assert!(!is_fenced(&store), "{code}");
            assert_eq!(summary(&store), [("a".into(), State::Started)]);
            assert_eq!(store.view().check_recovered(), Ok(()));
        }
        let renamed = format!("{ABORTED_FILE}.damaged-{code}");
        assert_eq!(dir.read(&renamed).unwrap(), Some(damaged));
        let store = open(&dir);
        start(&store, "b", "p").unwrap();
        abort(&store, "b").unwrap();
        assert!(is_fenced(&open(&dir)));
    }
}

#[test]
fn a_deleted_second_file_loses_only_the_fences() {
    let (dir, store) = with_aborted();
    dir.remove(ABORTED_FILE).unwrap();
    assert!(!is_fenced(&store));
    assert_eq!(summary(&store), [("a".into(), State::Started)]);
}

// req: CKPT-21
#[test]
fn something_else_with_the_name_of_the_second_file_is_renamed() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join(ABORTED_FILE);
    let open = || {
        let dir = Arc::new(OsDir::open(scratch.path()).unwrap());
        Store::<TwoFiles>::open(dir, boot()).unwrap().0
    };
    let mut running = None;
    for code in ["not-a-file", "not-a-file-2", "io-error", "io-error-2"] {
        match code {
            "io-error" | "io-error-2" => std::os::unix::fs::symlink(&path, &path).unwrap(),
            _ => std::fs::create_dir(&path).unwrap(),
        }
        let is_running = code.ends_with("-2");
        let store = running.take().filter(|_| is_running).unwrap_or_else(open);
        start(&store, "b", "p").unwrap();
        let renamed = format!("{ABORTED_FILE}.damaged-{code}");
        let renamed = scratch.path().join(renamed);
        assert!(renamed.symlink_metadata().is_ok(), "{code}");
        assert_eq!(store.view().check_recovered(), Ok(()));
        abort(&store, "b").unwrap();
        assert!(path.is_file());
        start(&store, "b", "q").unwrap();
        abort(&store, "b").unwrap();
        store
            .commit(|claims| {
                claims.expire(at(100));
                Ok::<_, Refused>(())
            })
            .unwrap();
        running = Some(store);
    }
}

// req: CKPT-19
#[test]
fn an_aborted_record_in_the_checkpoint_is_damage() {
    let dir = dir_with("04-channel-aborted.json");
    let damaged = Checkpoint::<TwoFiles>::decode(&rewritten(&dir)).unwrap_err();
    let found = (damaged.reason, damaged.survivors);
    assert_eq!(found, (DamageReason::AbortedState, Survivors::Some));
    let detail = r#"claim 33333333-aaaa-4bbb-8ccc-000000000003 is in the state "PrepareAborted""#;
    assert_eq!(damaged.detail.as_deref(), Some(detail));

    let (store, damage) = open_as::<TwoFiles>(&dir);
    let Damage::Damaged { set_aside_as, .. } = damage else {
        panic!("damaged")
    };
    assert_eq!(set_aside_as, "checkpoint.json.damaged-aborted-state");
    assert_eq!(store.view().boot(), &Boot::Same);
}

fn open_in(dir: &SimDir, boot: &str) -> Store<TwoFiles> {
    let boot = BootId::new(boot).unwrap();
    Store::open(Arc::new(dir.clone()), boot).unwrap().0
}

// req: CKPT-15
#[test]
fn aborted_records_of_an_earlier_boot_are_removed_with_the_others() {
    let (dir, _) = with_aborted();
    let store = open_in(&dir, "after-the-reboot");
    let recorded = BOOT.to_owned();
    assert_eq!(store.view().boot(), &Boot::Changed { recorded });
    assert_eq!(store.view().records_unchecked().count(), 2);
    store
        .commit(|claims| {
            claims.remove_earlier_boot();
            Ok::<_, Refused>(())
        })
        .unwrap();
    assert!(dir.read(ABORTED_FILE).unwrap().is_none());
    let store = open_in(&dir, "after-the-reboot");
    assert_eq!(store.view().records().unwrap().count(), 0);
}

// req: CKPT-15
#[test]
fn aborted_records_of_another_boot_than_the_checkpoints_do_not_count() {
    let (dir, _) = with_aborted();
    // NVIDIA's driver begins a new checkpoint after a reboot.
    let fresh = SimDir::new();
    let store = open_in(&fresh, "after-the-reboot");
    store
        .commit(|claims| {
            claims.start(&claim("a"), &status("p"), at(0))?;
            claims.complete("a", &status("p"), vec![TwoFiles::any()])?;
            claims.remove("a")
        })
        .unwrap();
    dir.replace(CHECKPOINT_FILE, &rewritten(&fresh), 0o600)
        .unwrap();
    let store = open_in(&dir, "after-the-reboot");
    assert_eq!(store.view().records().unwrap().count(), 0);
    start(&store, "b", "p").unwrap();
    assert!(dir.read(ABORTED_FILE).unwrap().is_none());
}

#[test]
fn records_without_a_boot_id_keep_their_fences() {
    const STARTED: &str = "11111111-aaaa-4bbb-8ccc-000000000001";
    let dir = dir_with("24-gpu-no-bootid.json");
    let is_aborted = |store: &Store<GpuGroup>| store.view().phase(STARTED) == Phase::Aborted;
    let (store, _) = open_as::<GpuGroup>(&dir);
    assert_eq!(store.view().boot(), &Boot::Missing);
    store.commit(|claims| claims.abort(STARTED, at(0))).unwrap();
    let (store, _) = open_as::<GpuGroup>(&dir);
    assert_eq!(store.view().boot(), &Boot::Missing);
    assert!(is_aborted(&store));
    store.commit(Claims::assume_same_boot).unwrap();
    let (store, _) = open_as::<GpuGroup>(&dir);
    assert_eq!(store.view().boot(), &Boot::Same);
    assert!(is_aborted(&store));
}

#[test]
fn a_deleted_checkpoint_is_restored_with_the_aborted_records() {
    let (dir, store) = with_aborted();
    let files = [CHECKPOINT_FILE, ABORTED_FILE].map(|file| dir.read(file).unwrap());
    dir.remove(CHECKPOINT_FILE).unwrap();
    assert!(is_fenced(&store));
    let restored = [CHECKPOINT_FILE, ABORTED_FILE].map(|file| dir.read(file).unwrap());
    assert_eq!(restored, files);
}

// === files of NVIDIA's driver for gpu.nvidia.com ===

/// One element of `preparedDevices` in the driver for `gpu.nvidia.com`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct GpuGroup {
    devices: Vec<GpuDevice>,
    #[serde(rename = "configState")]
    config_state: GpuConfigState,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct GpuDevice {
    gpu: Option<Part>,
    mig: Option<Part>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vfio: Option<Part>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Part {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    info: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    concrete: Option<Box<RawValue>>,
    device: Option<KubeletDevice>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct GpuConfigState {
    #[serde(
        rename = "mpsControlDaemonID",
        default,
        skip_serializing_if = "String::is_empty"
    )]
    mps_control_daemon_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mps_applied: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time_slice_applied: Option<bool>,
}

impl Payload for GpuGroup {
    const HAS_ABORTED: bool = false;
}

const OF_GPU_DRIVER: [&str; 5] = [
    "20-gpu-empty.json",
    "21-gpu-started.json",
    "22-gpu-completed.json",
    "23-gpu-all-kinds.json",
    "24-gpu-no-bootid.json",
];

// req: CKPT-2
#[test]
fn a_file_of_the_gpu_driver_is_written_again_byte_for_byte() {
    for name in OF_GPU_DRIVER {
        let file = fixture(name);
        let read = Checkpoint::<GpuGroup>::decode(&file).unwrap();
        assert!(read.encode().unwrap() == file, "{name}");
        let text = String::from_utf8(file).unwrap();
        assert_eq!(
            text.matches(r#""DeviceName""#).count(),
            2 * devices(&read),
            "{name}"
        );
    }
}

fn devices(read: &Checkpoint<GpuGroup>) -> usize {
    let groups = read.claims().flat_map(|(_, record)| record.devices());
    groups.map(|group| group.devices.len()).sum()
}

// req: CKPT-2, CKPT-19
#[test]
fn started_and_completed_records_have_the_gpu_drivers_bytes_also_beside_aborted_ones() {
    for name in ["21-gpu-started.json", "22-gpu-completed.json"] {
        let file = fixture(name);
        let read = Checkpoint::<GpuGroup>::decode(&file).unwrap();
        let (uid, record) = read.claims().next().unwrap();
        let mut id = claim(uid);
        id.name.clone_from(&record.name);
        id.namespace.clone_from(&record.namespace);
        let (status, devices) = (record.status.clone(), record.devices().to_vec());

        let dir = SimDir::new();
        let (store, _) = open_as::<GpuGroup>(&dir);
        store
            .commit(move |claims| {
                claims.start(&claim("b"), &status, at(0))?;
                claims.abort("b", at(0))?;
                claims.start(&id, &status, at(0))?;
                if !devices.is_empty() {
                    claims.complete(&id.uid, &status, devices)?;
                }
                Ok::<_, Refused>(())
            })
            .unwrap();
        assert!(rewritten(&dir) == file, "{name}");
        assert_eq!(states(&dir, ABORTED_FILE), [("b".into(), "PrepareAborted")]);
    }
}

#[test]
fn a_reader_that_does_not_know_the_payload_reads_the_files_of_both_drivers() {
    for name in OF_GPU_DRIVER {
        let read = Checkpoint::<Box<RawValue>>::decode(&fixture(name)).unwrap();
        assert!(read.encode().unwrap() == fixture(name), "{name}");
    }
    let aborted = fixture("04-channel-aborted.json");
    assert!(Checkpoint::<Box<RawValue>>::decode(&aborted).is_ok());
}
