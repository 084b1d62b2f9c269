//! Compares the API requests of each event with `docs/reference/plugin-api-requests.md`.

use std::time::Duration;

use dra_kubelet::testing::{Answers, FakeKubelet, Options, Times};
use dra_kubelet::{DesiredPool, KubeClaims, Plugin};
use k8s_openapi::api::resource::v1::Device;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::api_server::{ApiServer, DOMAIN};
use super::node::{NODE, TestNode, mk_ref, open};

const DRIVER: &str = "compute-domain.nvidia.com";
const OTHER_DOMAIN: &str = "c0ffee00-0000-4000-8000-000000000002";

/// The plugin's parts on real sockets, with a kubelet.
struct Running {
    server: ApiServer,
    node: TestNode,
    kubelet: FakeKubelet,
    plugin: Plugin,
    desired: watch::Sender<DesiredPool>,
}

impl Running {
    /// Starts the plugin, and waits for the requests of its start.
    async fn start() -> Self {
        let server = ApiServer::default();
        server.put_domain("ns", "train", DOMAIN);
        let node = TestNode::start(&server);
        // kubelet's own deadline of 45 s, for retries within a call.
        let times = Times {
            call: Times::KUBELET.call,
            ..Times::fast()
        };
        let options = Options {
            times,
            ..Options::default()
        };
        let kubelet = FakeKubelet::start(node.root.path(), options).unwrap();
        let channel = Device {
            name: "channel-0".to_owned(),
            ..Device::default()
        };
        let (desired, pool) = watch::channel(DesiredPool::Undecided);
        let plugin = Plugin::builder(DRIVER, NODE)
            .kubelet_root(node.root.path())
            .publish(server.client(), pool)
            .start(node.driver.clone(), KubeClaims::new(server.client()))
            .unwrap();
        let running = Self {
            server,
            node,
            kubelet,
            plugin,
            desired,
        };
        // Until the watch and the list after the registration have begun.
        let begun = |requests: &[String]| requests.len() >= 3;
        soon(|| begun(&running.server.peek_requests())).await;
        let devices = DesiredPool::Devices(vec![channel]);
        running.desired.send_replace(devices);
        running.check("plugin start").await;
        running
    }

    async fn prepare(&self, claim: &str) -> Answers {
        self.kubelet
            .prepare(DRIVER, &[mk_ref("ns", claim)])
            .await
            .unwrap()
    }

    async fn unprepare(&self, claim: &str) {
        let answers = self
            .kubelet
            .unprepare(DRIVER, &[mk_ref("ns", claim)])
            .await
            .unwrap();
        assert_eq!(answers[claim], Ok(Vec::new()));
    }

    /// Compares the requests with the table. None may follow.
    async fn check(&self, event: &str) {
        let expected = of_table(event);
        soon(|| self.server.peek_requests().len() >= expected.len()).await;
        let mut requests = self.server.requests();
        requests.sort_unstable();
        assert_eq!(requests, expected, "{event}");
    }
}

/// Waits for the condition. Gives up after a while; then the following assertion fails.
async fn soon(is_so: impl Fn() -> bool) {
    let so = async {
        while !is_so() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    let _ = timeout(Duration::from_secs(60), so).await;
}

/// The requests of an event in the table, in alphabetical order.
pub(crate) fn of_table(event: &str) -> Vec<String> {
    let table = include_str!("../../../../docs/reference/plugin-api-requests.md");
    let row = table
        .lines()
        .find_map(|line| line.strip_prefix(&format!("| {event} | ")));
    let row = row.unwrap_or_else(|| panic!("no row {event:?}"));
    let requests = row.split(" |").next().unwrap();
    let mut requests: Vec<_> = match requests {
        "none" => Vec::new(),
        some => some.split(", ").map(str::to_owned).collect(),
    };
    requests.sort_unstable();
    requests
}

// req: NODE-20, NODE-42
#[tokio::test]
async fn every_call_of_kubelet_sends_the_requests_of_the_table() {
    let running = Running::start().await;
    let server = &running.server;
    for claim in ["first", "later", "refused", "orphan"] {
        server.put_claim("ns", claim);
    }

    assert!(running.prepare("first").await["first"].is_ok());
    running
        .check("pod start, first of its domain on the node")
        .await;
    assert!(running.prepare("first").await["first"].is_ok());
    running.check("repeated call for a prepared claim").await;
    running.unprepare("first").await;
    running.check("Unprepare").await;

    assert!(running.prepare("later").await["later"].is_ok());
    running.check("pod start, later ones of the domain").await;
    running.unprepare("later").await;

    server.change_claim("ns", "refused", |claim| {
        let mode = "/status/allocation/devices/config/0/opaque/parameters/allocationMode";
        *claim.pointer_mut(mode).unwrap() = "All".into();
    });
    assert!(running.prepare("refused").await["refused"].is_err());
    running.check("claim with a permanent error").await;
    server.change_claim("ns", "orphan", |claim| {
        let domain = "/status/allocation/devices/config/0/opaque/parameters/domainID";
        *claim.pointer_mut(domain).unwrap() = OTHER_DOMAIN.into();
    });
    assert!(running.prepare("orphan").await["orphan"].is_err());
    running.check("claim of a deleted ComputeDomain").await;

    server.delete_slices();
    running.kubelet.restart().await.unwrap();
    running.check("kubelet restart").await;
    running.plugin.shutdown().await;
}

#[tokio::test]
async fn a_retry_within_a_call_sends_the_requests_of_the_table() {
    let running = Running::start().await;
    for claim in ["holder", "next"] {
        running.server.put_claim("ns", claim);
    }
    assert!(running.prepare("holder").await["holder"].is_ok());
    running
        .check("pod start, first of its domain on the node")
        .await;
    let refused_twice = async {
        let holder = running.node.driver.holders.clone();
        assert_eq!(holder.next().await, "holder");
        assert_eq!(holder.next().await, "holder");
        let requests = running.server.requests();
        let between = of_table("retry within a call");
        assert_eq!(
            requests,
            [vec!["get resourceclaims".to_owned()], between].concat()
        );
        running.unprepare("holder").await;
    };
    let (answers, ()) = tokio::join!(running.prepare("next"), refused_twice);
    assert!(answers["next"].is_ok());
    running.plugin.shutdown().await;
}

// req: NODE-42
#[tokio::test(start_paused = true)]
async fn an_idle_node_and_a_restarted_api_server_cause_the_requests_of_the_table() {
    let running = Running::start().await;
    running.server.put_claim("ns", "a");
    assert!(running.prepare("a").await["a"].is_ok());
    let stop = CancellationToken::new();
    tokio::spawn(running.node.reconciler().run(stop.clone()));
    running
        .check("pod start, first of its domain on the node")
        .await;

    let began = Instant::now();
    let most = of_table("idle node with claims, in ten minutes");
    let mut gets = 0;
    for _ in 0..6 {
        sleep(Duration::from_secs(600)).await;
        let requests = running.server.requests();
        let count = |wanted: &str| requests.iter().filter(|it| *it == wanted).count();
        let watches = count("watch resourceslices");
        assert_eq!(
            watches + count("get resourceclaims"),
            requests.len(),
            "{requests:?}"
        );
        gets += count("get resourceclaims");
        let expiries = usize::try_from(began.elapsed().as_secs()).unwrap();
        assert!(watches <= 3 && gets <= 1 + expiries / 600);
        assert!(requests.len() <= most.len() + 1, "{requests:?}");
    }
    assert!(gets >= 4, "{gets}");

    running.server.end_watches();
    sleep(Duration::from_secs(60)).await;
    let watches = running.server.requests();
    let watches: Vec<_> = watches
        .into_iter()
        .filter(|request| request != "get resourceclaims")
        .collect();
    assert_eq!(watches, of_table("API server restart, within a minute"));
    running.server.lose_history();
    running.server.end_watches();
    sleep(Duration::from_secs(61)).await;
    let mut requests = running.server.requests();
    requests.retain(|request| request != "get resourceclaims");
    requests.sort_unstable();
    assert_eq!(
        requests,
        of_table("API server restart with lost watch history")
    );
    stop.cancel();
}

#[tokio::test]
async fn damage_causes_lists_of_claims_only_if_a_claim_can_be_lost() {
    let server = ApiServer::default();
    server.put_domain("ns", "train", DOMAIN);
    server.put_claim("ns", "a");
    server.put_pending_claims(600);
    let node = TestNode::start(&server);
    let checkpoint = node.root.path().join("data/checkpoint.json");
    for (event, claims) in [
        ("damaged checkpoint, no claim lost", 0),
        ("damaged checkpoint, lost claim on the second page", 1),
    ] {
        if claims > 0 {
            node.prepare("ns", "a").await.unwrap();
        }
        std::fs::write(&checkpoint, "scribble").unwrap();
        let damaged = open(node.root.path(), None);
        server.requests();
        let lost = damaged.lost_claims().unwrap();
        let allocated = node.lookup.find_allocated(&lost).await.unwrap();
        let mut requests = server.requests();
        requests.retain(|request| request != "patch resourceclaims/status");
        assert_eq!(requests, of_table(event), "{event}");
        assert_eq!(allocated.len(), claims);
        damaged.rebuild(allocated, &None).unwrap();
        assert_eq!(damaged.recorded_claims().len(), claims);
    }
    assert_eq!(json!(node.recorded()), json!(["a"]));
}
