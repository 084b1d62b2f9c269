//! A CRD that lacks status fields, as that of the Go driver's chart does.

use std::time::Duration;

use tokio::time::Instant;

use crate::fake_api::{Call, FakeApi};
use crate::testing::logs::Logs;
use crate::testing::objects::*;
use crate::testing::{Controller, assert_within};

// req: CD-3
#[tokio::test(start_paused = true)]
async fn with_an_older_crd_domains_become_ready_without_conditions_and_it_is_logged_once() {
    let logs = Logs::start();
    let api = FakeApi::new();
    api.set_older_crd(true);
    let controller = Controller::start(&api);
    api.create(mk_domain("first"));
    api.until("ready", |api| is_ready(api, "first")).await;
    assert_eq!(reason(&api, "first"), "");
    assert_eq!(
        api.count(Call::WriteStatus),
        3,
        "one for each field that is missing"
    );
    assert_eq!(logs.with("on the API server is older").len(), 1);

    api.forget_requests();
    let names = mk_names(20);
    create_domains(&api, &names);
    api.until("ready", |api| are_ready(api, &names)).await;
    assert_eq!(api.count(Call::WriteStatus), 20);
    api.after(Duration::from_secs(300)).await;
    assert_eq!(logs.with("on the API server is older").len(), 1);
    assert_eq!(
        api.count(Call::WriteStatus),
        20,
        "a status without the fields is complete"
    );
    assert_eq!(logs.with("reconcile failed"), [""; 0]);
    controller.stop().await;
}

// req: CD-3
#[tokio::test(start_paused = true)]
async fn once_the_crd_is_replaced_every_domain_gets_its_condition_within_half_a_minute() {
    let api = FakeApi::new();
    api.set_older_crd(true);
    let controller = Controller::start(&api);
    let names = mk_names(20);
    create_domains(&api, &names);
    api.until("ready", |api| are_ready(api, &names)).await;
    api.after(Duration::from_secs(100)).await;
    api.set_older_crd(false);
    let replaced = Instant::now();
    api.until("conditions", |api| {
        names.iter().all(|name| reason(api, name) == "Admitted")
    })
    .await;
    assert_within(Duration::from_secs(30), replaced);
    api.after(Duration::from_secs(100)).await;
    api.forget_requests();
    api.after(Duration::from_secs(100)).await;
    assert_eq!(api.count(Call::TryStatus), 0, "it is not probed any more");
    controller.stop().await;
}
