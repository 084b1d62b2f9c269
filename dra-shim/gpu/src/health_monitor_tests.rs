use gpu_inventory::{Fact, Inventory, Sources};
use mock_host::{MockHost, library};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::*;
use crate::health::Effect;
use crate::metrics::GpuMetrics;

const GIVE_UP: Duration = Duration::from_secs(60);

/// Not a test: this program, started again by the tests as a process with a session.
#[test]
#[ignore = "started by the other tests"]
fn child() {
    nvml_session::serve_if_started().expect("a test starts it");
}

/// A host with eight GPUs, and the tasks that follow their health.
struct Node {
    dir: tempfile::TempDir,
    inventory: Inventory,
    host: MockHost,
}

/// The running tasks.
struct Running {
    reports: watch::Receiver<Option<Arc<HealthReport>>>,
    metrics: HealthMetrics,
    monitor: GpuMonitor,
    shutdown: CancellationToken,
    tasks: [JoinHandle<()>; 2],
}

// === impl Node ===

impl Node {
    fn new(inventory: &str, action: &Fact<u32>) -> Self {
        let path = format!(
            "{}/inventory/tests/inventories/{inventory}.json",
            env!("CARGO_MANIFEST_DIR")
        );
        let text = std::fs::read(path).unwrap();
        let mut inventory: Inventory = serde_json::from_slice(&text).unwrap();
        for gpu in &mut inventory.gpus {
            gpu.recovery_action = action.clone();
        }
        let dir = tempfile::tempdir().unwrap();
        let host = MockHost::new(dir.path(), &inventory, library());
        host.write("sys/module/nvidia/version", "580.82.07");
        host.write(BOOT_ID, "00000000-0000-0000-0000-000000000001\n");
        Self {
            dir,
            inventory,
            host,
        }
    }

    fn start(&self, deadline: Duration) -> Running {
        let exe = std::env::current_exe().unwrap();
        let child = ["--exact", "health_monitor::tests::child", "--ignored"];
        let sources = Sources {
            proc: self.host.path("proc"),
            sys: self.host.path("sys"),
            program: Some(SessionProgram::new(exe, child, deadline)),
            deadline,
            ..Sources::this_host(DriverRoot::new(self.dir.path()))
        };
        let data_dir = self.dir.path().to_owned();
        let monitor = GpuMonitor::of_host(sources, data_dir.clone());
        let liveness = Liveness::default();
        let metrics = GpuMetrics::default();
        let settings = HealthSettings::default();
        let health = HealthMonitor::new(&monitor, &data_dir, settings, &metrics, &liveness);
        let shutdown = CancellationToken::new();
        Running {
            reports: health.reports(),
            metrics: metrics.health(),
            monitor: monitor.clone(),
            tasks: [
                tokio::spawn(monitor.run(liveness.add("monitor", GIVE_UP), shutdown.clone())),
                tokio::spawn(health.run(shutdown.clone())),
            ],
            shutdown,
        }
    }

    fn uuid(&self, index: usize) -> &str {
        self.inventory.gpus[index].uuid.known().unwrap()
    }

    /// Lets NVML report another recovery action.
    fn set_action(&mut self, index: usize, action: u32) {
        self.inventory.gpus[index].recovery_action = Fact::Known(action);
        self.host.replace_inventory(&self.inventory);
    }

    fn xid(&self, gpu: usize, code: u64) {
        self.host
            .event(&json!({"gpu": gpu, "type": 8, "data": code}));
    }
}

// req: GPU-44
#[tokio::test]
async fn xids_of_all_gpus_at_the_same_time_all_count() {
    let node = Node::new("h100", &Fact::Absent);
    let mut running = node.start(GIVE_UP);
    running.receive_xid(&node, 0, 13).await;
    let lines = (0..8).map(|gpu| json!({"gpu": gpu, "type": 8, "data": 79}).to_string() + "\n");
    let events = node.host.path("usr/lib64/nvml-mock.events");
    let before = std::fs::read_to_string(&events).unwrap();
    std::fs::write(&events, before + &lines.collect::<String>()).unwrap();
    for gpu in 0..8 {
        let expected = Some(("79", Effect::NoSchedule));
        running.until(node.uuid(gpu), expected).await;
    }
    assert_eq!(running.metrics.xids(79), 8);
    running.stop().await;
}

// === impl Running ===

impl Running {
    /// The taint for XIDs of a device in a report.
    fn xid_of(
        report: Option<&HealthReport>,
        uuid: &str,
        instance: Option<(u32, u32)>,
    ) -> Option<(String, Effect)> {
        let faults = report?.faults(uuid, instance).into_iter();
        let mut xids = faults.filter(|it| it.key == gpu_api::names::XID_TAINT);
        let xid = xids.next()?;
        Some((xid.value.clone().unwrap(), xid.effect))
    }

    /// Waits until the GPU has this taint for XIDs.
    async fn until(&mut self, uuid: &str, expected: Option<(&str, Effect)>) {
        let expected = expected.map(|it| (it.0.to_owned(), it.1));
        let is_so = |report: &Option<Arc<HealthReport>>| {
            report.is_some() && Self::xid_of(report.as_deref(), uuid, None) == expected
        };
        let reached = timeout(GIVE_UP, self.reports.wait_for(is_so)).await;
        let reached = reached.map(|it| it.map(drop));
        let report = self.reports.borrow().clone();
        assert!(matches!(reached, Ok(Ok(()))), "{report:?}");
    }

    /// Lets the event happen until it is received: the process may not have registered the GPUs yet.
    async fn receive_xid(&self, node: &Node, gpu: usize, code: u64) {
        let before = self.metrics.xids(code);
        until(async || {
            node.xid(gpu, code);
            sleep(Duration::from_millis(50)).await;
            self.metrics.xids(code) > before
        })
        .await;
    }

    async fn stop(self) {
        self.shutdown.cancel();
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

async fn until(condition: impl AsyncFn() -> bool) {
    let poll = async {
        while !condition().await {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let met = timeout(GIVE_UP, poll).await;
    assert!(met.is_ok(), "the condition was never met");
}

/// The GPU with the fault.
const BAD: usize = 3;

const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";

// req: GPU-44, GPU-45, GPU-47
#[tokio::test(flavor = "multi_thread")]
async fn an_xid_is_reported_until_the_gpu_recovers_and_the_gpu_is_let_go_meanwhile() {
    let mut node = Node::new("h100", &Fact::Known(0));
    let bad = node.uuid(BAD).to_owned();
    let mut running = node.start(GIVE_UP);
    running.receive_xid(&node, BAD, 31).await;
    running.until(&bad, Some(("31", Effect::None))).await;
    node.set_action(BAD, 1);
    running.receive_xid(&node, BAD, 79).await;
    running.until(&bad, Some(("79", Effect::NoSchedule))).await;
    for index in (0..8).filter(|it| *it != BAD) {
        let report = running.reports.borrow().clone();
        let xid = Running::xid_of(report.as_deref(), node.uuid(index), None);
        assert_eq!(xid, None, "gpu {index}");
    }
    // The process holds the other GPUs only.
    until(async || {
        let before = running.metrics.xids(46);
        node.xid(BAD, 46);
        running.receive_xid(&node, 2, 47).await;
        running.metrics.xids(46) == before
    })
    .await;
    node.set_action(BAD, 0);
    running.until(&bad, None).await;
    running.receive_xid(&node, BAD, 48).await;
    running.stop().await;
}

// req: GPU-45
#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_that_needed_a_reset_before_the_start_is_reported_at_once() {
    let mut node = Node::new("h100", &Fact::Known(0));
    node.set_action(BAD, 2);
    let mut running = node.start(GIVE_UP);
    let bad = node.uuid(BAD).to_owned();
    running.reports.changed().await.unwrap();
    let first = running.reports.borrow().clone();
    let xid = Running::xid_of(first.as_deref(), &bad, None);
    assert_eq!(xid, Some(("0".to_owned(), Effect::NoSchedule)));
    running.stop().await;
}

// req: GPU-44, GPU-48
#[tokio::test(flavor = "multi_thread")]
async fn without_recovery_actions_an_xid_outlives_the_plugin_but_no_driver_and_no_boot() {
    let node = Node::new("h100", &Fact::Absent);
    let bad = node.uuid(BAD).to_owned();
    let fatal = Some(("79", Effect::NoSchedule));
    let mut running = node.start(GIVE_UP);
    running.receive_xid(&node, BAD, 31).await;
    running.receive_xid(&node, BAD, 79).await;
    running.until(&bad, fatal).await;
    running.stop().await;

    for end in ["driver", "boot"] {
        let mut running = node.start(GIVE_UP);
        running.until(&bad, fatal).await;
        if end == "driver" {
            let module = node.host.path("sys/module/nvidia");
            std::fs::rename(module, node.host.path("sys/module/old")).unwrap();
            node.host.write("sys/module/nvidia/version", "580.82.07");
            running.until(&bad, None).await;
            running.receive_xid(&node, BAD, 79).await;
            running.until(&bad, fatal).await;
        }
        running.stop().await;
    }
    let boot = "proc/sys/kernel/random/boot_id";
    node.host
        .write(boot, "00000000-0000-0000-0000-000000000002\n");
    let mut running = node.start(GIVE_UP);
    running.reports.changed().await.unwrap();
    running.until(&bad, None).await;
    running.stop().await;
}

// req: GPU-44
#[tokio::test(flavor = "multi_thread")]
async fn an_xid_is_reported_although_nvml_hangs() {
    let node = Node::new("h100", &Fact::Known(0));
    let bad = node.uuid(BAD).to_owned();
    let mut running = node.start(GIVE_UP);
    running.receive_xid(&node, 0, 31).await;
    node.host
        .inject(&json!({"hang": ["nvmlDeviceGetFieldValues"]}));
    node.xid(BAD, 79);
    running.until(&bad, Some(("79", Effect::NoSchedule))).await;
    node.host.inject(&json!({}));
    running.until(&bad, Some(("79", Effect::None))).await;
    running.stop().await;
}

// req: GPU-49
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_ends_is_started_again_and_after_three_ends_its_gpus_say_so() {
    let node = Node::new("h100", &Fact::Known(0));
    let uuid = node.uuid(0).to_owned();
    let mut running = node.start(GIVE_UP);
    running.receive_xid(&node, 0, 31).await;
    node.host.inject(&json!({"abort": ["nvmlEventSetWait_v2"]}));
    until(async || running.metrics.failures() == 1).await;
    let is_unmonitored = |report: &Option<Arc<HealthReport>>| {
        let faults = report.as_ref().map(|it| it.faults(&uuid, None).len());
        faults == Some(2)
    };
    assert!(!is_unmonitored(&running.reports.borrow()), "a short gap");
    let reached = timeout(GIVE_UP, running.reports.wait_for(is_unmonitored)).await;
    reached.unwrap().unwrap();
    assert!(running.metrics.failures() >= 3);
    node.host.inject(&json!({}));
    running.receive_xid(&node, 1, 43).await;
    assert!(!is_unmonitored(&running.reports.borrow()));
    running.stop().await;
}

// req: GPU-49
#[tokio::test(flavor = "multi_thread")]
async fn a_gpu_that_cannot_be_registered_is_unmonitored_and_no_other() {
    let node = Node::new("h100", &Fact::Known(0));
    node.host
        .inject(&json!({"errors": {format!("nvmlDeviceRegisterEvents@{BAD}"): 999}}));
    let mut running = node.start(GIVE_UP);
    running.receive_xid(&node, 0, 31).await;
    let faults = |running: &Running, index| {
        let report = running.reports.borrow().clone().unwrap();
        let faults = report.faults(node.uuid(index), None);
        let keys = faults.iter().map(|it| it.key.to_owned());
        keys.collect::<Vec<_>>()
    };
    running
        .until(node.uuid(0), Some(("31", Effect::None)))
        .await;
    assert_eq!(faults(&running, BAD), ["gpu.nvidia.com/unmonitored"]);
    assert_eq!(faults(&running, 1), [""; 0]);
    running.stop().await;
}

// req: GPU-46
#[tokio::test(flavor = "multi_thread")]
async fn an_xid_of_an_instance_concerns_its_mig_device() {
    let node = Node::new("h100-mig", &Fact::Absent);
    let uuid = node.uuid(0).to_owned();
    let mig = node.inventory.gpus[0].mig.known().unwrap();
    let ids: Vec<_> = mig.devices.iter().filter_map(Fact::known).collect();
    let [one, other] = [ids[0], ids[1]].map(|it| (it.gpu_instance.id, it.compute_instance));
    let mut running = node.start(GIVE_UP);
    running.receive_xid(&node, 0, 31).await;
    node.host.event(&json!({
        "gpu": 0, "type": 8, "data": 95, "gpu_instance": one.0, "compute_instance": one.1,
    }));
    let fatal = Some(("95".to_owned(), Effect::NoSchedule));
    let is_so = |report: &Option<Arc<HealthReport>>| {
        Running::xid_of(report.as_deref(), &uuid, Some(one)) == fatal
    };
    let reached = timeout(GIVE_UP, running.reports.wait_for(is_so)).await;
    let report = reached.unwrap().unwrap().clone();
    let expected = Some(("31".to_owned(), Effect::None));
    let xid = Running::xid_of(report.as_deref(), &uuid, Some(other));
    assert_eq!(xid, expected);
    running.stop().await;
}

// req: GPU-50
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_mig_configuration_is_read_at_once() {
    let mut node = Node::new("h100-mig", &Fact::Known(0));
    let running = node.start(GIVE_UP);
    let devices = |running: &Running| running.monitor.subscribe().borrow().devices.len();
    running.receive_xid(&node, 0, 31).await;
    let before = devices(&running);
    if let Fact::Known(mig) = &mut node.inventory.gpus[0].mig {
        mig.devices.remove(0);
    }
    node.set_action(0, 0);
    node.host.event(&json!({"gpu": 0, "type": 256}));
    until(async || devices(&running) == before - 1).await;
    running.stop().await;
}

// req: GPU-51
#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_xids_is_reported_once() {
    let node = Node::new("h100", &Fact::Known(0));
    let mut running = node.start(GIVE_UP);
    running.receive_xid(&node, 0, 31).await;
    running
        .until(node.uuid(0), Some(("31", Effect::None)))
        .await;
    running.reports.mark_unchanged();
    for _ in 0..300 {
        node.xid(0, 31);
        node.xid(0, 13);
        sleep(Duration::from_millis(10)).await;
    }
    until(async || running.metrics.xids(13) == 300).await;
    assert!(!running.reports.has_changed().unwrap());
    running.stop().await;
}
