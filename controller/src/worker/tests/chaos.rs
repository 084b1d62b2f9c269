//! Domains are created and deleted at random while requests fail and controllers are killed.

use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::sleep;

use crate::fake_api::{FakeApi, Resource};
use crate::testing::Controller;
use crate::testing::objects::*;

/// Fifty domains in each.
const ROUNDS: u64 = 20;

async fn pause(longest_ms: u64) {
    sleep(Duration::from_millis(fastrand::u64(..=longest_ms))).await;
}

/// One domain, deleted at a random moment of its creation: sometimes by force, sometimes after
/// its template has lost its label. After both, nothing would identify the template as ours.
async fn come_and_go(api: FakeApi, name: String) {
    let mishap = fastrand::u8(..10);
    pause(300).await;
    api.create(mk_domain(&name));
    pause(100).await;
    if mishap == 0 && template(&api, &name).is_some() {
        strip_labels(&api, &name);
        pause(20).await;
    }
    delete_domain(&api, &name);
    if mishap == 1 && domain(&api, &name).is_some() {
        strip_finalizers(&api, Resource::Domains, &name);
    }
}

async fn round() {
    let api = FakeApi::new();
    api.set_latency(Duration::from_millis(20));
    let mut controller = Controller::start(&api);
    api.break_at_random(0.1);
    let mut domains = tokio::task::JoinSet::new();
    for number in 0..50 {
        domains.spawn(come_and_go(api.clone(), format!("d{number}")));
    }
    for _ in 0..3 {
        pause(150).await;
        controller.kill().await;
        controller = Controller::start(&api);
    }
    domains.join_all().await;
    api.heal();
    api.until("gone", nothing_is_left).await;
    // Nothing reappears: requests in flight have arrived by then.
    api.after(Duration::from_secs(60)).await;
    assert!(nothing_is_left(&api), "{}", api.dump());
    controller.stop().await;
}

#[test]
fn a_thousand_domains_deleted_at_random_under_faults_and_kills_leave_nothing() {
    for seed in 0..ROUNDS {
        eprintln!("seed {seed}");
        fastrand::seed(seed);
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build();
        runtime.unwrap().block_on(round());
    }
}
