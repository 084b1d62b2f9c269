//! The plugin's health when its dependencies fail.

use std::fs;
use std::time::Duration;

use crate::GIVE_UP;
use crate::api::{Behaviour, RequestPattern};
use crate::driver_root::{HANGS, HEALTHY};
use crate::go_driver;
use crate::go_node::until;
use crate::host_imex::get;
use crate::node::{Node, claim};

/// The plugin tries the lock every minute, for ten seconds.
const NOTICED_WITHIN: Duration = Duration::from_secs(100);
const HTTP: &str = "--http-endpoint=127.0.0.1:0";

// === impl Node ===

impl Node {
    /// The address of health and metrics. Needs [`HTTP`].
    async fn http_address(&mut self) -> String {
        let address = "serving health and metrics address=";
        self.plugin.until_printed(&[address]).await;
        let printed = self.plugin.printed();
        let rest = printed.split(address).nth(1).unwrap();
        rest.split_whitespace().next().unwrap().to_owned()
    }

    /// Waits until a condition of `/readyz` is met (1) or not (0).
    pub(crate) async fn until_condition(&mut self, condition: &str, value: u8) {
        let series = format!("imex_dra_condition_met{{condition=\"{condition}\"}} {value}\n");
        let address = self.http_address().await;
        until(&series, NOTICED_WITHIN, || {
            get(&address, "/metrics").contains(&series)
        })
        .await;
    }
}

// req: NODE-41
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute: hack/test.sh runs it"]
async fn a_held_lock_makes_the_plugin_unready_and_not_restarted() {
    let mut node = Node::start_with(&[HTTP]).await;
    node.until_condition("checkpoint-lock", 1).await;
    let lock = go_driver::lock(&node.data());
    node.until_condition("checkpoint-lock", 0).await;
    let address = node.http_address().await;
    let (ready, live) = (get(&address, "/readyz?verbose"), get(&address, "/livez"));
    assert!(
        ready.contains("503") && ready.contains("pu.lock"),
        "{ready}"
    );
    assert!(live.contains("200 OK"), "{live}");
    drop(lock);
    node.until_condition("checkpoint-lock", 1).await;
    node.prepare(&claim("a")).await.unwrap();
}

// req: NODE-35, NODE-41
#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_nvml_makes_the_plugin_unready_and_not_restarted() {
    let mut node = Node::start_early(&[HTTP], HANGS, &[]).await;
    let address = node.http_address().await;
    until("the hang is reported", NOTICED_WITHIN, || {
        get(&address, "/readyz?verbose").contains("NVML has not responded for")
    })
    .await;
    node.until_condition("fabric", 0).await;
    let live = get(&address, "/livez");
    assert!(live.contains("200 OK"), "{live}");
    node.configure_driver(HEALTHY);
    node.until_condition("fabric", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_time_out_leave_no_threads_and_no_connections() {
    const CALLS: usize = 30;
    let node = Node::start().await;
    node.prepare(&claim("a")).await.unwrap();
    node.unprepare(&claim("a")).await.unwrap();
    let proc = format!("/proc/{}", node.plugin.pid());
    let count = |of: &str| fs::read_dir(format!("{proc}/{of}")).unwrap().count();
    let before = [count("task"), count("fd")];
    let requests = RequestPattern {
        what: "get resourceclaims",
        name: "b",
    };
    node.api.begin_fault(requests, Behaviour::NeverAnswers);
    let b = claim("b");
    let calls = (0..CALLS).map(|_| node.prepare(&b));
    for answer in futures_util::future::join_all(calls).await {
        let refused = answer.unwrap_err();
        // The time-out of the request, or of the attempt.
        let has_reason = ["did not respond in time", "takes longer than kubelet waits"]
            .iter()
            .any(|reason| refused.contains(reason));
        assert!(has_reason, "{refused}");
    }
    assert!(node.api.hits() > 0);
    node.api.end_fault();
    node.until_prepared(&b, GIVE_UP).await;
    node.unprepare(&b).await.unwrap();
    until("threads and descriptors are as before", GIVE_UP, || {
        let now = [count("task"), count("fd")];
        now.iter()
            .zip(before)
            .all(|(&now, before)| now <= before + 2)
    })
    .await;
}
