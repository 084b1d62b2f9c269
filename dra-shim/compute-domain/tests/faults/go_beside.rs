//! The Go driver still runs beside this plugin: it holds the lock, changes records, listens, or has
//! published the slice. Neither driver loses state.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::GIVE_UP;
use crate::driver_root::HEALTHY;
use crate::go_driver::{self, Checkpoint, Record};
use crate::go_node::until;
use crate::ground::Ground;
use crate::kept::spec_name;
use crate::node::{CALL, Node, claim};

/// NVML without a fabric: the device then equals that of the Go driver.
const NO_FABRIC: &str =
    r#", "errors": {"nvmlDeviceGetGpuFabricInfoV": 3, "nvmlDeviceGetGpuFabricInfo": 3}"#;
const DAEMON: &str = "44444444-aaaa-4bbb-8ccc-000000000004";
const SLICE: &str = "00000-compute-domain.nvidia.com-node-a-x7k2p";
/// Two checks for other plugins, a minute apart.
const REPORTED_WITHIN: Duration = Duration::from_secs(150);
/// How long both drivers change records.
const BOTH_WORK: Duration = Duration::from_secs(10);

/// Stops the other side, too, when one fails.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A checkpoint of this boot with no claims.
fn leave_empty_checkpoint(ground: &Ground) {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let empty = String::from_utf8(go_driver::checkpoint("01-empty")).unwrap();
    let mut file = Checkpoint::read(empty.as_bytes());
    file.set_boot(boot.trim());
    ground.leave_checkpoint(file.write());
}

// req: NODE-34
#[tokio::test(flavor = "multi_thread")]
async fn the_plugin_waits_for_the_go_drivers_lock_and_answers_in_time() {
    let ground = Ground::new().await;
    leave_empty_checkpoint(&ground);
    let before = fs::read(ground.data().join("checkpoint.json")).unwrap();
    let lock = go_driver::lock(&ground.data());
    let mut node = Node::start_on(ground, &[], HEALTHY, &[]);
    node.plugin
        .until_printed(&["registered with kubelet"])
        .await;
    // A call before the plugin has opened its checkpoint.
    let a = claim("a");
    let (prepared, ()) = tokio::join!(node.until_prepared(&a, GIVE_UP), async {
        sleep(CALL / 4).await;
        assert_eq!(
            fs::read(node.data().join("checkpoint.json")).unwrap(),
            before
        );
        assert!(!node.plugin.printed().contains("checkpoint open"));
        drop(lock);
    });
    assert_eq!(prepared[0].device, "channel-0");

    let lock = go_driver::lock(&node.data());
    let began = Instant::now();
    let (unprepared, ()) = tokio::join!(async { node.unprepare(&claim("a")).await }, async {
        sleep(CALL / 2).await;
        drop(lock);
    });
    unprepared.unwrap();
    assert!(began.elapsed() >= CALL / 2);

    // The lock is held longer than the call takes. The call is answered, and no step is left half done.
    let lock = go_driver::lock(&node.data());
    let refused = node.prepare(&claim("a")).await.unwrap_err();
    assert!(refused.contains("longer than kubelet waits"), "{refused}");
    assert_eq!(node.states(), []);
    drop(lock);
    node.until_prepared(&claim("a"), GIVE_UP).await;
    assert_eq!(node.kept().claims_with_specs(), ["a"]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes two minutes: hack/test.sh runs it"]
async fn the_go_drivers_sockets_are_kept_and_reported() {
    let ground = Ground::new().await;
    let _listens = ground.leave_sockets();
    let sockets = [
        ground
            .dir
            .path()
            .join("plugins_registry/compute-domain.nvidia.com-reg.sock"),
        ground.data().join("dra.sock"),
    ];
    let mut node = Node::start_on(ground, &[], HEALTHY, &[]);
    node.until_ready().await;
    node.until_prepared(&claim("a"), GIVE_UP).await;
    until("the other plugin is reported", REPORTED_WITHIN, || {
        let events = node.api.events();
        events.iter().any(|event| event.contains("SecondPlugin"))
    })
    .await;
    node.until_unprepared(&claim("a"), GIVE_UP).await;
    for socket in &sockets {
        std::os::unix::net::UnixStream::connect(socket).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_go_drivers_slice_is_taken_over_and_written_only_if_it_differs() {
    for (driver, writes) in [
        (NO_FABRIC, vec![]),
        // The clique is an attribute that the Go driver does not publish.
        (HEALTHY, vec![format!("put resourceslices {SLICE}")]),
    ] {
        let ground = Ground::new().await;
        ground.api.put("resourceslices", go_driver::slice(SLICE));
        let http = ["--http-endpoint=127.0.0.1:0"];
        let mut node = Node::start_on(ground, &http, driver, &[]);
        node.plugin
            .until_printed(&["registered with kubelet"])
            .await;
        node.until_condition("resource-slice", 1).await;
        let (written, slices) = node.api.slices();
        assert_eq!(written, writes, "{slices:#?} {}", node.plugin.printed());
        let [slice] = slices.as_slice() else {
            panic!("{slices:?}");
        };
        assert_eq!(slice["metadata"]["name"], SLICE);
        assert_eq!(slice["spec"]["pool"]["generation"], 1);
    }
}

// req: CKPT-8
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes ten seconds of both cores: hack/test.sh runs it"]
async fn a_go_driver_that_changes_records_concurrently_loses_none_and_destroys_none() {
    let ground = Ground::new().await;
    leave_empty_checkpoint(&ground);
    let mut node = Node::start_on(ground, &[], HEALTHY, &[]);
    node.until_ready().await;
    let (data, cdi) = (node.data(), node.cdi());
    let stop = AtomicBool::new(false);
    let (rounds, others) = std::thread::scope(|scope| {
        let go = scope.spawn(|| go_works(&data, &cdi, &stop));
        let stops = Stops(&stop);
        let rounds = tokio::task::block_in_place(|| {
            let handle = tokio::runtime::Handle::current();
            handle.block_on(prepares_and_unprepares(&node))
        });
        drop(stops);
        (rounds, go.join().unwrap())
    });
    println!("{rounds} rounds of the plugin, {others} of the other");
    assert!(rounds > 5 && others > 5, "{rounds} and {others}");
    assert_eq!(node.states(), [], "all claims were unprepared");
    assert_eq!(node.kept().claims_with_specs(), Vec::<&str>::new());
    node.plugin.kill();
    let mut files: Vec<_> = fs::read_dir(&data).unwrap().flatten().collect();
    files.retain(|file| !file.file_name().to_string_lossy().contains('@'));
    // Removed at the next start.
    files.retain(|file| !file.file_name().to_string_lossy().starts_with("publisher-"));
    let names: BTreeSet<_> = files.iter().map(fs::DirEntry::file_name).collect();
    assert_eq!(names, ["checkpoint.json", "pu.lock"].map(Into::into).into());
}

/// Claims `a` and `b` take turns.
async fn prepares_and_unprepares(node: &Node) -> u32 {
    let (began, mut rounds) = (Instant::now(), 0);
    while began.elapsed() < BOTH_WORK {
        let uid = ["a", "b"][rounds as usize % 2];
        node.prepare(&claim(uid)).await.unwrap();
        let states = node.states();
        let held = states
            .iter()
            .filter(|(_, state)| state == "PrepareCompleted");
        assert!(held.clone().any(|(of, _)| of == uid), "{states:?}");
        assert!(node.kept().spec_of(uid).is_some());
        node.unprepare(&claim(uid)).await.unwrap();
        assert!(!node.states().iter().any(|(of, _)| of == uid));
        rounds += 1;
    }
    rounds
}

/// Prepares and unprepares a daemon's claim like the Go driver, each under the lock: Started, spec,
/// Completed; at Unprepare the record before the spec. Checks that its record is unchanged each time
/// it has the lock again.
fn go_works(data: &Path, cdi: &Path, stop: &AtomicBool) -> u32 {
    let file = go_driver::checkpoint("05-daemon-completed");
    let completed = Checkpoint::read(&file).claims().remove(0).1;
    let spec = cdi.join(spec_name(DAEMON));
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) {
        let lock = go_driver::lock(data);
        let started = Record {
            state: "PrepareStarted".to_owned(),
            prepared_devices: None,
            ..completed.clone()
        };
        go_driver::change(data, |records| {
            assert!(records.insert(DAEMON.to_owned(), started).is_none());
        });
        go_driver::write_spec(&spec, &go_driver::daemon_spec(DAEMON));
        go_driver::change(data, |records| {
            records.insert(DAEMON.to_owned(), completed.clone());
        });
        drop(lock);
        std::thread::sleep(Duration::from_millis(u64::from(rounds) % 7));

        let lock = go_driver::lock(data);
        go_driver::change(data, |records| {
            let record = records.remove(DAEMON).unwrap();
            assert_eq!(record.state, "PrepareCompleted");
            assert_eq!(record.status.get(), completed.status.get());
        });
        fs::remove_file(&spec).unwrap();
        drop(lock);
        rounds += 1;
    }
    rounds
}
