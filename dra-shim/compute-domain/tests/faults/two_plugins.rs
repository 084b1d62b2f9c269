//! Two plugins with one directory, as in an update with surge. Each has a separate kubelet, so that
//! the test decides which plugin gets a call.

use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};
use tokio::sync::RwLock;
use tokio::time::{Instant, sleep};

use crate::api::ApiServer;
use crate::driver_root::HEALTHY;
use crate::go_driver::{self, Checkpoint};
use crate::ground::Ground;
use crate::node::{Node, claim};

/// Channels, each for two callers.
const CHANNELS: usize = 3;
const CALLERS: usize = 2 * CHANNELS;
const LASTS: Duration = Duration::from_secs(15);

/// Two plugins that are killed at random times.
struct Pair {
    plugins: [RwLock<Node>; 2],
    api: ApiServer,
    /// The known state of each caller's claim.
    claims: [Mutex<Known>; CALLERS],
    ends: AtomicBool,
    answered: AtomicU32,
    kills: AtomicU32,
}

/// A caller's knowledge of its claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Known {
    may_hold: bool,
    /// Changes with every change of `may_hold`.
    version: u64,
}

/// The UID of a caller's claim. Each is used for one round, like a pod's.
fn uid(n: usize, round: u32) -> String {
    format!("c{n}r{round}-aaaa-4bbb-8ccc-000000000000")
}

fn is_of(uid: &str, n: usize) -> bool {
    uid.starts_with(&format!("c{n}r"))
}

fn channel(n: usize) -> usize {
    n % CHANNELS
}

/// The caller with the same channel.
fn rival(n: usize) -> usize {
    (n + CHANNELS) % CALLERS
}

/// A claim after its allocation, except that two claims get the same device.
fn mk_claim(n: usize, uid: &str) -> Value {
    let file = Checkpoint::read(&go_driver::checkpoint("02-channel-completed"));
    let status = file.claims().remove(0).1.status;
    let device = format!("channel-{}", channel(n));
    let status = status.get().replace("channel-0", &device);
    let status: Value = serde_json::from_str(&status).unwrap();
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": {"namespace": "ns", "name": claim(uid).name, "uid": uid},
        "status": status,
    })
}

/// Pauses, sometimes longer than a refused call takes.
async fn rest(random: &mut Rng) {
    let millis = if random.u8(..6) == 0 {
        3000
    } else {
        random.u64(..20)
    };
    sleep(Duration::from_millis(millis)).await;
}

// === impl Pair ===

impl Pair {
    async fn start() -> Arc<Self> {
        let (ground, second) = (Ground::new().await, Ground::new().await);
        let api = ground.api.clone();
        let (dir, other) = (ground.dir.path(), second.dir.path());
        std::fs::create_dir_all(ground.data()).unwrap();
        std::fs::create_dir_all(ground.cdi()).unwrap();
        for name in ["plugins", "cdi"] {
            symlink(dir.join(name), other.join(name)).unwrap();
        }
        std::fs::copy(dir.join("kubeconfig"), other.join("kubeconfig")).unwrap();
        let plugins = [ground, second].map(|ground| Node::start_on(ground, &[], HEALTHY, &[]));
        let pair = Self {
            plugins: plugins.map(RwLock::new),
            api,
            claims: Default::default(),
            ends: AtomicBool::default(),
            answered: AtomicU32::default(),
            kills: AtomicU32::default(),
        };
        for plugin in &pair.plugins {
            plugin.write().await.until_ready().await;
        }
        Arc::new(pair)
    }

    /// Prepares and unprepares one claim after the other, until the end.
    async fn call(self: Arc<Self>, n: usize, mut random: Rng) {
        for round in 0.. {
            if self.ends.load(Ordering::Relaxed) {
                break;
            }
            let uid = uid(n, round);
            self.api.put("resourceclaims", mk_claim(n, &uid));
            self.prepare(n, &uid, &mut random).await;
            rest(&mut random).await;
            self.unprepare(n, &uid, &mut random).await;
            rest(&mut random).await;
        }
    }

    /// One call.
    async fn prepare(&self, n: usize, uid: &str, random: &mut Rng) {
        self.know(n, true);
        let before = self.known(rival(n));
        let plugin = random.usize(..2);
        // The read lock is released in between, so that `kill` can take the lock.
        let answer = self.plugins[plugin].read().await.prepare(&claim(uid)).await;
        match answer {
            Ok(devices) => {
                assert_eq!(devices[0].device, format!("channel-{}", channel(n)));
                self.check_prepared(n, uid).await;
                self.answered.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) if error.contains("still in use") => {
                let after = self.known(rival(n));
                let is_stale = !before.may_hold && before == after;
                assert!(!is_stale, "plugin {plugin} has stale records: {error}");
            }
            Err(_) => {} // the plugin was killed, or its kubelet has not found it yet
        }
    }

    /// Repeats the call until it succeeds.
    async fn unprepare(&self, n: usize, uid: &str, random: &mut Rng) {
        loop {
            let plugin = self.plugins[random.usize(..2)].read().await;
            if plugin.unprepare(&claim(uid)).await.is_ok() {
                break;
            }
            drop(plugin);
            sleep(Duration::from_millis(50)).await;
        }
        let kept = self.plugins[0].read().await.kept();
        assert!(!kept.holders().contains(&uid), "{kept:#?}");
        assert_eq!(kept.spec_of(uid), None);
        self.know(n, false);
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    async fn check_prepared(&self, n: usize, uid: &str) {
        let kept = self.plugins[0].read().await.kept();
        let holders = kept.holders();
        assert!(holders.contains(&uid), "{kept:#?}");
        assert!(!holders.iter().any(|it| is_of(it, rival(n))), "{kept:#?}");
        let spec = kept.spec_of(uid).expect("a prepared claim has a spec");
        assert!(spec.contains(&format!("channel{}", channel(n))), "{spec}");
    }

    fn know(&self, n: usize, may_hold: bool) {
        let mut known = self.claims[n].lock().unwrap();
        known.may_hold = may_hold;
        known.version += 1;
    }

    fn known(&self, n: usize) -> Known {
        *self.claims[n].lock().unwrap()
    }

    /// Kills a plugin with SIGKILL and restarts it at once.
    async fn kill(self: Arc<Self>, mut random: Rng) {
        let began = Instant::now();
        while began.elapsed() < LASTS {
            sleep(Duration::from_millis(random.u64(..1500))).await;
            let plugin = &self.plugins[random.usize(..2)];
            // Calls in progress end now.
            let pid = plugin.read().await.plugin.pid().to_string();
            Command::new("kill").args(["-9", &pid]).status().unwrap();
            let mut plugin = plugin.write().await;
            plugin.plugin.until_died().await;
            plugin.restart();
            plugin.until_ready().await;
            self.kills.fetch_add(1, Ordering::Relaxed);
        }
        self.ends.store(true, Ordering::Relaxed);
    }
}

// req: NODE-24
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes 20 seconds of both cores: hack/test.sh runs it"]
async fn two_plugins_with_one_checkpoint_agree_while_both_are_killed() {
    let seed =
        std::env::var("IMEX_SEED").map_or_else(|_| fastrand::u64(..), |it| it.parse().unwrap());
    println!("IMEX_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    let pair = Pair::start().await;
    let mut callers = tokio::task::JoinSet::new();
    callers.spawn(Arc::clone(&pair).kill(random.fork()));
    for n in 0..CALLERS {
        callers.spawn(Arc::clone(&pair).call(n, random.fork()));
    }
    while let Some(ended) = callers.join_next().await {
        ended.unwrap_or_else(|error| panic!("IMEX_SEED={seed}: {error}"));
    }
    let count = |counter: &AtomicU32| counter.load(Ordering::Relaxed);
    let (answered, kills) = (count(&pair.answered), count(&pair.kills));
    println!("{answered} calls, {kills} kills");
    assert!(
        answered > 20 && kills > 2,
        "{answered} calls, {kills} kills"
    );

    let mut first = pair.plugins[0].write().await;
    assert_eq!(first.kept().holders(), Vec::<&str>::new());
    assert_eq!(first.kept().claims_with_specs(), Vec::<&str>::new());
    // Each plugin knows the other's prepared claims, and a start removes what kills have left.
    let mut second = pair.plugins[1].write().await;
    let last = uid(0, u32::MAX);
    pair.api.put("resourceclaims", mk_claim(0, &last));
    let held = claim(&last);
    let devices = first.prepare(&held).await.unwrap();
    assert_eq!(second.prepare(&held).await.unwrap(), devices);
    for plugin in [&mut first, &mut second] {
        plugin.kill();
        plugin.restart();
        plugin.until_ready().await;
    }
    assert_eq!(first.kept().holders(), [last.as_str()]);
    assert_eq!(first.kept().claims_with_specs(), [last.as_str()]);
    second.unprepare(&held).await.unwrap();
    assert!(!first.kept().has_temporaries(), "{:#?}", first.kept());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_released_by_one_plugin_is_free_for_the_other_at_once() {
    let pair = Pair::start().await;
    let uids = [uid(0, 0), uid(rival(0), 0)];
    for uid in &uids {
        pair.api.put("resourceclaims", mk_claim(0, uid));
    }
    let [a, b] = uids.each_ref().map(|uid| claim(uid));
    for (one, other) in [(0, 1), (1, 0)] {
        let one = pair.plugins[one].read().await;
        let other = pair.plugins[other].read().await;
        one.prepare(&a).await.unwrap();
        let refused = other.prepare(&b).await.unwrap_err();
        assert!(refused.contains("still in use"), "{refused}");
        one.unprepare(&a).await.unwrap();
        // With stale records the call would fail.
        other.prepare(&b).await.unwrap();
        assert_eq!(one.kept().holders(), [uids[1].as_str()]);
        one.unprepare(&b).await.unwrap();
        // With stale records this call would be answered without a record.
        other.prepare(&b).await.unwrap();
        assert_eq!(one.kept().holders(), [uids[1].as_str()]);
        assert_eq!(one.kept().claims_with_specs(), [uids[1].as_str()]);
        one.unprepare(&b).await.unwrap();
    }
}
