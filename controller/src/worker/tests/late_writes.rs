//! Writes of a former leader that were in flight when another one took over.

use std::time::Duration;

use crate::fake_api::{Call, FakeApi, Recorded, Resource};
use crate::testing::Controller;
use crate::testing::objects::*;

/// Every write for a domain, from creation to deletion.
async fn writes_of_a_life(api: &FakeApi) -> Vec<Recorded> {
    let first = Controller::start(api);
    first.settle().await;
    api.create(mk_domain("a"));
    api.until("ready", |api| is_ready(api, "a")).await;
    delete_domain(api, "a");
    api.until("gone", nothing_is_left).await;
    first.kill().await;
    let mut writes = api.requests();
    writes.retain(|request| request.call.is_write());
    assert_eq!(writes.len(), 6);
    writes
}

// req: CD-27
#[tokio::test(start_paused = true)]
async fn late_writes_do_not_change_a_new_domain_of_the_same_name() {
    let api = FakeApi::new();
    let late = writes_of_a_life(&api).await;
    let second = Controller::start(&api);
    api.create(mk_domain("a"));
    api.until("ready", |api| is_ready(api, "a")).await;
    let objects = || [Resource::Domains, Resource::Templates].map(|resource| api.all(resource));
    let before = objects();
    for write in late.iter().chain(late.iter().rev()) {
        api.replay(write);
        assert_eq!(objects(), before, "{write}");
    }
    second.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_template_created_late_is_garbage_collected() {
    let api = FakeApi::new();
    let late = writes_of_a_life(&api).await;
    let second = Controller::start(&api);
    second.settle().await;
    for write in &late {
        api.replay(write);
        let created = api.all(Resource::Templates).len();
        assert_eq!(
            created,
            usize::from(write.call == Call::CreateTemplate),
            "{write}"
        );
        api.until("collected", nothing_is_left).await;
    }
    api.after(Duration::from_secs(60)).await;
    assert!(nothing_is_left(&api), "{}", api.dump());
    second.stop().await;
}
