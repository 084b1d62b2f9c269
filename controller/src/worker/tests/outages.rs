//! An unavailable API server.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::fake_api::{Call, FakeApi, Fault, Recorded, Resource, Rule};
use crate::testing::objects::*;
use crate::testing::{Controller, assert_within};

/// The longest pause of a domain's back-off, with its random part.
const LONGEST_PAUSE: Duration = Duration::from_secs(75);

fn of_domains(request: &Recorded) -> bool {
    request.call.is_write() || request.call == Call::GetTemplate
}

#[tokio::test(start_paused = true)]
async fn an_outage_costs_few_requests_and_domains_resume_out_of_step() {
    let api = FakeApi::new();
    api.set_latency(Duration::from_millis(10));
    let controller = Controller::start(&api);
    controller.settle().await;
    let names = mk_names(100);
    create_domains(&api, &names);
    api.until("some are ready", |api| api.writes() > 100).await;
    for name in &names[..50] {
        delete_domain(&api, name);
    }
    api.set_down(true);
    api.forget_requests();
    api.until("not ready", |_| controller.readiness.unmet().len() == 3)
        .await;
    api.after(Duration::from_secs(600)).await;
    let mut attempts: BTreeMap<_, usize> = BTreeMap::new();
    for request in api.requests().into_iter().filter(of_domains) {
        *attempts.entry(request.name).or_default() += 1;
    }
    // The requests to create a template have no name.
    attempts.remove("");
    assert!(attempts.len() >= 20, "{attempts:?}");
    assert!(attempts.values().all(|count| *count <= 25), "{attempts:?}");

    api.set_down(false);
    api.forget_requests();
    let back = Instant::now();
    let as_wanted = |api: &FakeApi| {
        let (deleted, kept) = names.split_at(50);
        are_ready(api, kept) && deleted.iter().all(|name| domain(api, name).is_none())
    };
    api.until("as wanted", as_wanted).await;
    assert_within(LONGEST_PAUSE, back);
    assert!(controller.readiness.unmet().is_empty());
    let requests = api
        .requests()
        .into_iter()
        .filter(|it| attempts.contains_key(&it.name));
    let mut first: BTreeMap<_, Instant> = BTreeMap::new();
    for request in requests {
        first.entry(request.name).or_insert(request.at);
    }
    let apart = *first.values().max().unwrap() - *first.values().min().unwrap();
    assert!(
        apart >= Duration::from_secs(10),
        "in step, within {apart:?}"
    );
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn past_failures_do_not_lengthen_the_next_back_off() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    api.break_with(Rule::once(Call::WriteStatus, Fault::InternalError).times(8));
    api.create(mk_domain("a"));
    api.until("ready", |api| is_ready(api, "a")).await;
    let before = uid(&template(&api, "a").unwrap());
    api.break_with(Rule::once(Call::CreateTemplate, Fault::InternalError));
    let failed = Instant::now();
    api.delete(Resource::Templates, TEAM, "a-channel");
    api.until("back", |api| is_replaced(api, "a", &before))
        .await;
    assert_eq!(api.faults_fired(), 9);
    assert_within(Duration::from_secs(1), failed);
    controller.stop().await;
}
