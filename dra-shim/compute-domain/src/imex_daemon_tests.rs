use std::path::Path;
use std::time::Instant;

use compute_domain_api::driver_managed::STATE_FILE;
use daemon_runtime::Liveness;
use dra_checkpoint::BootId;
use tempfile::TempDir;

use super::*;
use crate::tests::api_server::ApiServer;
use crate::tests::node::open;

const PATIENCE: Duration = Duration::from_secs(60);
const CLIQUE: &str = "07070707-0707-0707-0707-070707070707.0";

/// A node's daemon, and the task that watches its file.
struct Watched {
    watch: DaemonWatch,
    published: watch::Receiver<PublishedDaemon>,
    shutdown: CancellationToken,
    api: ApiServer,
    root: TempDir,
}

impl Watched {
    fn start() -> Self {
        let root = tempfile::tempdir().unwrap();
        let boot = BootId::new("boot-1").unwrap();
        let watch = DaemonWatch::new(ImexDaemon::new(root.path(), boot));
        let (sender, published) = watch::channel(PublishedDaemon::default());
        let shared_claims = SharedClaims::default();
        let api = ApiServer::default();
        shared_claims.set_available(open(root.path(), Some(root.path())));
        let task = DaemonTask {
            watch: watch.clone(),
            shared_claims,
            published: sender,
            heartbeat: Liveness::default().add("imex-daemon", PATIENCE),
            events: Events::new(api.client(), "test", "node-1"),
            node: ObjectReference::default(),
        };
        let shutdown = CancellationToken::new();
        tokio::spawn(task.run(shutdown.clone()));
        Self {
            watch,
            published,
            shutdown,
            api,
            root,
        }
    }

    fn daemon_says(&self, phase: &str) {
        self.daemon_writes(phase, "");
    }

    fn daemon_writes(&self, phase: &str, more: &str) {
        let state = format!(
            r#"{{"bootId":"boot-1","podUID":"pod-7","clique":"{CLIQUE}","index":0,
                "address":"10.0.0.1","phase":"{phase}","reason":"as the test says"{more}}}"#
        );
        let at = |name: &str| Path::new(self.root.path()).join(name);
        std::fs::write(at("new"), state).unwrap();
        std::fs::rename(at("new"), at(STATE_FILE)).unwrap();
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

fn mk_context(limit: Duration) -> Context {
    Context::new(Instant::now() + limit, CancellationToken::new())
}

// req: MODE-17
#[tokio::test]
async fn a_waiting_claim_continues_as_soon_as_the_daemon_is_ready() {
    let node = Watched::start();
    let context = mk_context(PATIENCE);
    let mut waits = Box::pin(node.watch.require_ready(&context, CLIQUE, |_| ()));
    let polled = timeout(Duration::ZERO, waits.as_mut()).await;
    assert!(polled.is_err(), "there is no daemon yet");
    node.daemon_says("starting");
    node.daemon_says("ready");
    // The first read may come before or after these writes.
    waits.await.unwrap();
    let again = node.watch.require_ready(&context, CLIQUE, |_| ()).await;
    assert_eq!(again, Ok(Waited::No));
}

// req: MODE-17
#[tokio::test]
async fn a_claim_whose_time_is_over_gets_the_daemons_reason() {
    let node = Watched::start();
    node.daemon_says("starting");
    let no_time = mk_context(Duration::ZERO);
    let refused = node.watch.require_ready(&no_time, CLIQUE, |_| ()).await;
    let error = refused.unwrap_err();
    assert_eq!(error.code(), "imex-daemon-starting");
    assert!(error.message().contains("as the test says"), "{error:?}");

    let cancelled = CancellationToken::new();
    cancelled.cancel();
    let context = Context::new(Instant::now() + PATIENCE, cancelled);
    let error = node
        .watch
        .require_ready(&context, CLIQUE, |_| ())
        .await
        .unwrap_err();
    assert_eq!(error.code(), "imex-daemon-starting");
}

// req: DAEMON-11
#[tokio::test]
async fn a_driver_too_old_for_the_daemon_is_reported_in_a_node_event() {
    let node = Watched::start();
    node.daemon_says("starting");
    let context = mk_context(MARGIN);
    let error = node.watch.require_ready(&context, CLIQUE, |_| ()).await;
    assert_eq!(error.unwrap_err().code(), "imex-daemon-starting");
    node.daemon_says("driver-too-old");
    let event = async {
        loop {
            let events = node.api.events();
            if !events.is_empty() {
                return events;
            }
            sleep(POLL_INTERVAL_WHILE_WAITING).await;
        }
    };
    let expected = "Warning ImexDriverTooOld: claims on this node wait: as the test says";
    assert_eq!(timeout(PATIENCE, event).await.unwrap(), [expected]);
    let error = node.watch.require_ready(&context, CLIQUE, |_| ()).await;
    assert_eq!(error.unwrap_err().code(), "imex-daemon-driver-too-old");
}

// req: MODE-19
#[tokio::test]
async fn the_begin_and_the_end_of_a_drain_are_published() {
    let mut node = Watched::start();
    node.daemon_says("draining");
    let drained = node.published.wait_for(|it| it.drained.is_some());
    let drained = timeout(PATIENCE, drained).await.unwrap().unwrap().clone();
    assert_eq!(drained.drained.as_deref(), Some("pod-7"));
    node.daemon_says("ready");
    let ended = node.published.wait_for(|it| it.drained.is_none());
    drop(timeout(PATIENCE, ended).await.unwrap().unwrap());
}

// req: DM-7
#[tokio::test]
async fn the_place_of_a_daemon_stays_published_while_the_next_one_starts() {
    let mut node = Watched::start();
    node.daemon_writes("ready", r#","place":"3/18""#);
    let published = node.published.wait_for(|it| it.place.is_some());
    let place = timeout(PATIENCE, published)
        .await
        .unwrap()
        .unwrap()
        .place
        .clone();
    let index = place
        .as_ref()
        .map(|(clique, place)| (clique.as_str(), place.index));
    assert_eq!(index, Some((CLIQUE, 3)));
    // Once the drain is published, the state without a place has been read.
    node.daemon_writes("draining", "");
    let drained = node.published.wait_for(|it| it.drained.is_some());
    let drained = timeout(PATIENCE, drained).await.unwrap().unwrap().clone();
    assert_eq!(drained.place, place);
    node.daemon_writes("ready", r#","place":"4/18""#);
    let moved = node.published.wait_for(|it| it.place != place);
    let moved = timeout(PATIENCE, moved).await.unwrap().unwrap().clone();
    assert_eq!(moved.place.unwrap().1.index, 4);
}
