//! One call of kubelet's with many claims, through dra-kubelet, onto a disk.

use std::sync::Arc;
use std::time::{Duration, Instant};

use compute_domain_node::{ChannelRequest, DomainState, Moment, NodeClaims};
use dra_checkpoint::{BootId, ClaimName, ClaimStatus};
use dra_kubelet::testing::{FakeKubelet, Options, Times};
use dra_kubelet::{
    Claim, ClaimError, ClaimRef, ClaimSource, Context, Driver, GetClaimError, Plugin,
    PreparedDevice,
};
use durable_file::{SimDir, Step};
use imex_runtime::Liveness;

use crate::claim_errors::{prepare_failed, unprepare_failed};
use crate::prepare_queue::{PrepareQueue, ReadyClaim};
use crate::test_objects::{EXCLUSIVE, mk_hardware, mk_status_json};

const DRIVER: &str = compute_domain_api::names::DRIVER_NAME;
const CLAIMS: usize = 16;
const PATIENCE: Duration = Duration::from_secs(60);

/// As the plugin's driver, without an API server.
struct BatchDriver {
    claims: Arc<NodeClaims>,
    queue: PrepareQueue,
}

impl Driver for BatchDriver {
    async fn prepare(
        &self,
        context: &Context,
        claim: &Claim,
    ) -> Result<Vec<PreparedDevice>, ClaimError> {
        let announced = self.queue.announce();
        let name = ClaimName {
            uid: claim.id.uid.clone(),
            name: claim.id.name.clone(),
            namespace: claim.id.namespace.clone(),
        };
        let (claims, uid) = (Arc::clone(&self.claims), name.clone());
        let look_up = move || {
            let known = claims.already_prepared(&uid, mk_hardware().major.ok());
            known.map_err(|error| prepare_failed(&error))
        };
        let known = context.run_blocking(look_up).await?;
        assert!(known.is_none(), "every claim is new");
        let status = ClaimStatus::from_raw(&claim.status).unwrap();
        let ready = ReadyClaim {
            claims: Arc::clone(&self.claims),
            name,
            request: ChannelRequest::from_status(&status).unwrap(),
            status,
            domain: DomainState::Unassigned,
            node: "node-a".into(),
        };
        self.queue
            .prepare(context, ready, announced, prepare_failed)
            .await?;
        Ok(Vec::new())
    }

    async fn unprepare(&self, context: &Context, claim: &ClaimRef) -> Result<(), ClaimError> {
        let (claims, uid) = (Arc::clone(&self.claims), claim.uid.clone());
        let unprepare = move || {
            let done = claims.unprepare(&uid, Moment::now());
            done.map_err(|error| unprepare_failed(&error))
        };
        context.run_blocking(unprepare).await
    }
}

/// Answers each read after a pause, as an API server does.
struct SlowClaims(Duration);

impl ClaimSource for SlowClaims {
    async fn get(&self, namespace: &str, name: &str) -> Result<String, GetClaimError> {
        tokio::time::sleep(self.0).await;
        let channel = name.trim_start_matches("claim-").parse().unwrap();
        let status = mk_status_json(channel);
        Ok(format!(
            r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}","uid":"uid-{name}"}},"status":{status}}}"#
        ))
    }
}

fn mk_claims(checkpoint: &SimDir) -> Arc<NodeClaims> {
    let (checkpoint, cdi) = (Arc::new(checkpoint.clone()), Arc::new(SimDir::new()));
    let boot = BootId::new("boot-1").unwrap();
    let major = mk_hardware().major.ok();
    let (claims, _) = NodeClaims::start(checkpoint, cdi, boot, major, EXCLUSIVE).unwrap();
    Arc::new(claims)
}

async fn prepare_all(claims: Arc<NodeClaims>, read: Duration) {
    let root = tempfile::tempdir().unwrap();
    let options = Options {
        times: Times::fast(),
        ..Options::default()
    };
    let kubelet = FakeKubelet::start(root.path(), options).unwrap();
    let heartbeat = Liveness::default().add("prepare-worker", PATIENCE);
    let driver = BatchDriver {
        claims,
        queue: PrepareQueue::start(mk_hardware, heartbeat),
    };
    let plugin = Plugin::builder(DRIVER, "node-a").kubelet_root(root.path());
    let _plugin = plugin.start(driver, SlowClaims(read)).unwrap();
    kubelet.wait_registered(DRIVER).await;
    let claims: Vec<_> = (0..CLAIMS)
        .map(|n| ClaimRef {
            namespace: "ns".to_owned(),
            name: format!("claim-{n}"),
            uid: format!("uid-claim-{n}"),
        })
        .collect();
    let answers = kubelet.prepare(DRIVER, &claims).await.unwrap();
    assert_eq!(
        answers.values().filter(|answer| answer.is_ok()).count(),
        claims.len(),
        "{answers:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_claims_of_one_call_share_two_durable_writes() {
    let began = Instant::now();
    loop {
        let disk = SimDir::new();
        prepare_all(mk_claims(&disk), Duration::from_millis(2)).await;
        let steps = disk.steps();
        let writes = steps.iter().filter(|step| matches!(step, Step::Rename(..)));
        match writes.count() {
            2 => return,
            // The scheduler may have kept one of them away for longer than the pause.
            more => assert!(began.elapsed() < PATIENCE, "always {more} or so"),
        }
    }
}
