//! Simulates ten thousand plugins and one API server under their load: the real look-ups with
//! the real client's deadline and pauses, against seats and queues like those of API Priority
//! and Fairness. Time is paused. To see the table:
//!
//! ```text
//! cargo test -p compute-domain-plugin ten_thousand -- --nocapture
//! ```

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use compute_domain_api::crd::ComputeDomain;
use compute_domain_api::{DomainUid, Isolation};
use compute_domain_node::DomainState;
use daemon_runtime::{Readiness, test_client};
use dra_checkpoint::ClaimRef;
use dra_kubelet::{Claim, ClaimSource as _, KubeClaims};
use futures_util::future::join_all;
use http::{Request, Response};
use http_body_util::Full;
use kube::api::{ListParams, PartialObjectMeta};
use kube::client::Body;
use kube::{Api, Client, ResourceExt as _};
use node_claims::Presence;
use plugin_parts::{CheckSchedule, ClaimLookup, ClaimStatusWriter, DeviceReport};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::api_server::DOMAIN;
use super::node::{mk_metrics, mk_ref};
use crate::domain_lookup::DomainLookup;
use fairness::{Fairness, LIST_SEATS};

mod fairness;

const NODES: u32 = 10_000;

/// How long the server works on a request, once it has its seats.
#[derive(Clone, Copy)]
struct Speed {
    get: Duration,
    list: Duration,
    /// Writes go through the store.
    patch: Duration,
}

const QUIET: Speed = Speed {
    get: Duration::from_millis(5),
    list: Duration::from_millis(30),
    patch: Duration::from_millis(10),
};

/// Ten times slower, because of other load.
const BUSY: Speed = Speed {
    get: Duration::from_millis(50),
    list: Duration::from_millis(300),
    patch: Duration::from_millis(100),
};

/// The scheduler binds the pods of the job within this time.
const STARTED_WITHIN: Duration = Duration::from_secs(1);

/// When the library answers kubelet at the latest. After a failed call the pod waits another minute.
const ANSWER_WITHIN: Duration = Duration::from_secs(43);

/// The library's time limit of one read of a claim.
const READ_LIMIT: Duration = Duration::from_secs(10);

/// Log of the requests, and of those refused with 429.
#[derive(Default)]
struct Log {
    /// Requests by the second of their arrival.
    per_second: BTreeMap<u64, u32>,
    refused: u32,
    /// How many reports were written, and when the last one.
    reports: u32,
    last_report: u64,
}

/// How a plugin looks the domain up.
#[derive(Clone)]
enum Lookup {
    Now(DomainLookup),
    /// The former way: each attempt lists the namespace's domains without limit.
    Before(Client),
}

fn mk_server(speed: Speed) -> (Client, Arc<Mutex<Log>>) {
    let (fairness, log, start) = (
        Fairness::new(),
        Arc::<Mutex<Log>>::default(),
        Instant::now(),
    );
    let written = Arc::clone(&log);
    let server = tower::service_fn(move |request: Request<Body>| {
        let (fairness, log) = (fairness.clone(), Arc::clone(&written));
        async move {
            let second = start.elapsed().as_secs();
            *log.lock().unwrap().per_second.entry(second).or_default() += 1;
            let path = request.uri().path();
            let name = path.rsplit('/').next().unwrap();
            let (seats, time) = match name {
                "computedomains" => (LIST_SEATS, speed.list),
                "status" => (1, speed.patch),
                _ => (1, speed.get),
            };
            let answer = match fairness.admit(seats).await {
                Ok(_seats) => {
                    sleep(time).await;
                    if name == "status" {
                        let mut log = log.lock().unwrap();
                        log.reports += 1;
                        log.last_report = start.elapsed().as_secs();
                    }
                    Response::builder().body(answer_to(path, name))
                }
                Err(seconds) => {
                    log.lock().unwrap().refused += 1;
                    let builder = Response::builder()
                        .status(429)
                        .header("Retry-After", seconds);
                    builder.body("Too many requests, please try again later.\n".into())
                }
            };
            Ok::<_, io::Error>(answer.unwrap().map(Full::<Bytes>::from))
        }
    });
    let condition = Readiness::default().add_condition("api-server", "not reached yet");
    (test_client(server, &condition), log)
}

fn answer_to(path: &str, name: &str) -> String {
    let domain = json!({"apiVersion": "v1", "kind": "PartialObjectMetadata", "metadata": {"name": "train", "uid": DOMAIN}});
    match name {
        "computedomains" => json!({"apiVersion": "v1", "kind": "PartialObjectMetadataList", "metadata": {}, "items": [domain]}),
        "train" => domain,
        "status" => json!({}),
        _ => {
            assert!(path.contains("/resourceclaims/"), "{path}");
            json!({"metadata": {"uid": name, "annotations": {"resource.nvidia.com/computeDomainName": "train"}},
                "status": {"allocation": {"devices": {"results": [{"request": "r",
                    "driver": "compute-domain.nvidia.com", "pool": "p", "device": "channel-0"}]}}}})
        }
    }
    .to_string()
}

// === a job whose pods start at once ===

impl Lookup {
    async fn exists(&self, claim: &Claim) -> Result<bool, ()> {
        let uid = DomainUid::parse(DOMAIN).unwrap();
        match self {
            Self::Now(lookup) => {
                let state = lookup.state(claim, &uid).await.map_err(drop)?;
                Ok(state != DomainState::Missing)
            }
            Self::Before(client) => {
                let domains: Api<PartialObjectMeta<ComputeDomain>> =
                    Api::namespaced(client.clone(), "ns");
                let list = domains.list(&ListParams::default()).await.map_err(drop)?;
                Ok(list
                    .iter()
                    .any(|domain| domain.uid().as_deref() == Some(DOMAIN)))
            }
        }
    }
}

/// Looks up the claim's facts, with the library's retries: pauses from 250 ms, doubling to
/// 3 s. Then reports the prepared device. Returns how long the look-ups took.
async fn learn_facts(
    client: Client,
    lookup: Lookup,
    reports: Option<ClaimStatusWriter>,
    name: String,
) -> Duration {
    sleep(STARTED_WITHIN.mul_f64(fastrand::f64())).await;
    let (began, source) = (Instant::now(), KubeClaims::new(client));
    let (mut claim, mut pause) = (None, Duration::from_millis(250));
    loop {
        if claim.is_none() {
            let read = timeout(READ_LIMIT, source.get("ns", &name)).await;
            let json = read.ok().and_then(Result::ok);
            claim = json.map(|json| {
                Claim::parse(&json, &mk_ref("ns", &name), "compute-domain.nvidia.com").unwrap()
            });
        }
        if let Some(claim) = &claim
            && lookup.exists(claim).await.is_ok()
        {
            if let Some(reports) = reports {
                reports.write(mk_report(claim));
            }
            return began.elapsed();
        }
        sleep(pause + Duration::from_millis(250).mul_f64(fastrand::f64())).await;
        pause = (2 * pause).min(Duration::from_secs(3));
    }
}

fn mk_report(claim: &Claim) -> DeviceReport {
    DeviceReport {
        claim: claim.id.clone(),
        result: claim.results[0].clone(),
        message: "prepared",
        data: json!({"computeDomain": DOMAIN, "clique": null, "channel": 0}),
        has_others: false,
    }
}

struct JobResult {
    p50: Duration,
    p99: Duration,
    max: Duration,
    late: usize,
    requests: u32,
    refused: u32,
    reports: u32,
    last_report: u64,
}

/// `reports`: whether prepared devices are reported.
async fn run_job(speed: Speed, reports: bool, mk_lookup: impl Fn(Client) -> Lookup) -> JobResult {
    let metrics = mk_metrics();
    let (client, log) = mk_server(speed);
    let plugins = (0..NODES).map(|number| {
        let lookup = mk_lookup(client.clone());
        tokio::spawn(learn_facts(
            client.clone(),
            lookup,
            reports
                .then(|| ClaimStatusWriter::new(client.clone(), "reporter", Arc::clone(&metrics))),
            format!("claim-{number}"),
        ))
    });
    let mut took: Vec<_> = join_all(plugins)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    took.sort_unstable();
    // A report's last attempt begins within two minutes.
    sleep(Duration::from_secs(5 * 60)).await;
    let log = log.lock().unwrap();
    JobResult {
        p50: took[took.len() / 2],
        p99: took[took.len() * 99 / 100],
        max: took[took.len() - 1],
        late: took.iter().filter(|took| **took > ANSWER_WITHIN).count(),
        requests: log.per_second.values().sum(),
        refused: log.refused,
        reports: log.reports,
        last_report: log.last_report,
    }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_pods_of_one_job_get_their_facts_within_one_call_of_kubelet() {
    println!(
        "job of {NODES} pods        p50 s   p99 s   max s   requests     429  past 43 s  reports  last s"
    );
    let print = |name: &str, job: &JobResult| {
        let [p50, p99, max] = [job.p50, job.p99, job.max].map(|took| took.as_secs_f64());
        println!(
            "{name:<22} {p50:>7.2} {p99:>7.2} {max:>7.2} {:>10} {:>7} {:>10} {:>8} {:>7}",
            job.requests, job.refused, job.late, job.reports, job.last_report
        );
    };
    for (server, speed) in [("quiet", QUIET), ("busy", BUSY)] {
        let now = run_job(speed, true, |client| {
            Lookup::Now(DomainLookup::new(client, Isolation::None))
        })
        .await;
        print(&format!("now, {server} server"), &now);
        let before = run_job(speed, false, Lookup::Before).await;
        print(&format!("before, {server} server"), &before);
        assert_eq!(now.late, 0);
        assert_eq!(now.reports, NODES);
        assert!(now.requests - now.refused <= 3 * NODES);
        assert!(before.p99 > 2 * now.p99);
    }
}

// === idle nodes ===

/// Each node has one record, whose claim is present.
async fn idle_now(client: Client, number: u32, until: Instant) {
    let lookup = ClaimLookup::new(client, "compute-domain.nvidia.com", "n1");
    let uid = format!("claim-{number}");
    let recorded = [uid.clone()].into();
    let claim = ClaimRef {
        uid: uid.clone(),
        name: uid,
        namespace: "ns".to_owned(),
    };
    let mut schedule = CheckSchedule::new(Instant::now());
    loop {
        let next = schedule.next(std::iter::empty());
        if next > until {
            return;
        }
        sleep_until(next).await;
        for _ in schedule.due(&recorded, std::iter::empty(), next) {
            assert_eq!(lookup.presence(&claim).await, Presence::Present);
        }
    }
}

/// The former way: each record every 30 s, in phase on nodes that started together.
async fn idle_before(client: Client, number: u32, until: Instant) {
    let source = KubeClaims::new(client);
    while Instant::now() < until {
        let _ = source.get("ns", &format!("claim-{number}")).await;
        sleep(Duration::from_secs(30)).await;
    }
}

async fn run_idle<F: Future<Output = ()> + Send + 'static>(
    name: &str,
    node: impl Fn(Client, u32, Instant) -> F,
    minutes: u64,
) -> (f64, u32) {
    let (client, log) = mk_server(QUIET);
    let length = Duration::from_secs(60 * minutes);
    let until = Instant::now() + length;
    let nodes = (0..NODES).map(|number| tokio::spawn(node(client.clone(), number, until)));
    join_all(nodes).await.into_iter().for_each(Result::unwrap);
    let log = log.lock().unwrap();
    let mean = f64::from(log.per_second.values().sum::<u32>()) / length.as_secs_f64();
    let peak = log.per_second.values().copied().max().unwrap();
    println!("{name:<22} {mean:>13.1} {peak:>17}");
    (mean, peak)
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_idle_nodes_send_less_than_twenty_requests_a_second() {
    println!("{NODES} idle nodes      requests per s   in the busiest s");
    let (mean, peak) = run_idle("now, an hour", idle_now, 60).await;
    run_idle("before, a minute", idle_before, 1).await;
    assert!(mean < 20.0 && peak < 60, "{mean} {peak}");
}
