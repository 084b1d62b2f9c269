//! Templates that differ from the desired ones.

use std::time::Duration;

use compute_domain_api::names::{DOMAIN_LABEL, FINALIZER};
use serde_json::{Value, json};

use crate::fake_api::{Call, FakeApi, Fault, Resource, Rule};
use crate::testing::Controller;
use crate::testing::objects::*;

// req: CD-11
#[tokio::test(start_paused = true)]
async fn a_template_that_differs_is_replaced_and_reported() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    controller.settle().await;
    api.create(mk_domain("a"));
    api.until("ready", |api| is_ready(api, "a")).await;
    let before = template(&api, "a").unwrap();
    api.forget_requests();
    edit_template(&api, "a", alter);
    api.until("repaired", |api| is_replaced(api, "a", &uid(&before)))
        .await;
    api.after(Duration::from_secs(60)).await;
    assert_eq!(template(&api, "a").unwrap()["spec"], before["spec"]);
    assert_eq!(
        api.calls(),
        [
            Call::DryRunTemplate,
            Call::DeleteTemplate,
            Call::ReleaseTemplate,
            Call::CreateTemplate
        ]
    );
    assert!(api.event_note("TemplateRepaired").is_some());
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn fields_dropped_by_an_older_server_are_not_repaired() {
    let api = FakeApi::new();
    api.change_when_stored(Resource::Templates, |template| {
        template["spec"]["spec"]["devices"]["config"][0]["requests"] = json!([]);
    });
    let controller = Controller::start(&api);
    controller.settle().await;
    api.create(mk_domain("a"));
    api.until("ready", |api| is_ready(api, "a")).await;
    api.after(Duration::from_secs(3_600)).await;
    assert_eq!(api.count(Call::CreateTemplate), 1);
    assert_eq!(api.count(Call::DeleteTemplate), 0);
    assert!(
        api.count(Call::DryRunTemplate) <= 1,
        "{}",
        api.count(Call::DryRunTemplate)
    );
    controller.stop().await;
}

/// Changes another client makes to the labels of a template.
const TAMPERINGS: [fn(&mut Value); 4] = [
    |labels| *labels = Value::Null,
    |labels| *labels = json!({}),
    |labels| drop(labels.as_object_mut().unwrap().remove(DOMAIN_LABEL)),
    |labels| labels[DOMAIN_LABEL] = json!("another"),
];

#[tokio::test(start_paused = true)]
async fn a_template_whose_label_is_removed_or_changed_gets_it_back() {
    for tamper in TAMPERINGS {
        let api = FakeApi::new();
        let controller = Controller::start(&api);
        controller.settle().await;
        let domain = uid(&api.create(mk_domain("a")));
        api.until("ready", |api| is_ready(api, "a")).await;
        api.forget_requests();
        edit_template(&api, "a", |template| {
            tamper(&mut template["metadata"]["labels"]);
        });
        let is_back = |api: &FakeApi| {
            let template = template(api, "a").unwrap();
            template["metadata"]["labels"][DOMAIN_LABEL] == domain
        };
        api.until("back", is_back).await;
        api.after(Duration::from_secs(60)).await;
        assert_eq!(api.calls(), [Call::GetTemplate, Call::RestoreLabel]);
        controller.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_label_lost_while_no_controller_ran_is_restored_for_a_deleted_domain() {
    for tamper in TAMPERINGS {
        let api = FakeApi::new();
        let controller = Controller::start(&api);
        api.create(mk_domain("a"));
        api.until("ready", |api| is_ready(api, "a")).await;
        controller.stop().await;
        edit_template(&api, "a", |template| {
            tamper(&mut template["metadata"]["labels"]);
        });
        strip_finalizers(&api, Resource::Domains, "a");
        delete_domain(&api, "a");
        let controller = Controller::start(&api);
        api.until("gone", nothing_is_left).await;
        assert_eq!(api.count(Call::RestoreLabel), 1);
        controller.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_label_lost_while_no_controller_ran_is_restored_for_a_held_template() {
    for tamper in TAMPERINGS {
        let api = FakeApi::new();
        let controller = Controller::start(&api);
        let domain = uid(&api.create(mk_domain("a")));
        api.until("ready", |api| is_ready(api, "a")).await;
        controller.stop().await;
        hold_template(&api, "a");
        edit_template(&api, "a", |template| {
            tamper(&mut template["metadata"]["labels"]);
        });
        let before = uid(&template(&api, "a").unwrap());
        let controller = Controller::start(&api);
        api.after(Duration::from_secs(60)).await;
        let now = template(&api, "a").unwrap();
        assert_eq!(uid(&now), before);
        assert_eq!(now["metadata"]["labels"][DOMAIN_LABEL], domain);
        assert_eq!(api.count(Call::DeleteTemplate), 0);
        assert!(is_ready(&api, "a"));
        controller.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_label_restoration_reverted_by_a_policy_is_retried() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    let domain = uid(&api.create(mk_domain("a")));
    api.until("ready", |api| is_ready(api, "a")).await;
    let is_labelled = |api: &FakeApi| {
        let template = template(api, "a").unwrap_or_default();
        template["metadata"]["labels"][DOMAIN_LABEL] == domain
    };
    api.change_when_stored(Resource::Templates, |template| {
        template["metadata"]["labels"][DOMAIN_LABEL] = json!("another");
    });
    edit_template(&api, "a", |_| {});
    api.until("tried", |api| api.count(Call::RestoreLabel) > 2)
        .await;
    assert!(!is_labelled(&api));
    api.change_when_stored(Resource::Templates, |_| {});
    api.until("back", |api| is_labelled(api) && is_ready(api, "a"))
        .await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_template_whose_label_cannot_be_restored_is_replaced() {
    let api = FakeApi::new();
    api.break_with(Rule::always(Call::RestoreLabel, Fault::Forbidden("denied")));
    let controller = Controller::start(&api);
    api.create(mk_domain("a"));
    api.until("ready", |api| is_ready(api, "a")).await;
    let before = uid(&template(&api, "a").unwrap());
    strip_labels(&api, "a");
    api.until("repaired", |api| is_replaced(api, "a", &before))
        .await;
    assert_eq!(api.all(Resource::Templates).len(), 1);
    delete_domain(&api, "a");
    api.until("gone", nothing_is_left).await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_foreign_template_without_label_is_left_alone_even_with_our_finalizer() {
    let api = FakeApi::new();
    let mut foreign = mk_foreign_template("foreign");
    foreign["metadata"]["finalizers"] = json!([FINALIZER]);
    let foreign = api.create(foreign);
    let controller = Controller::start(&api);
    controller.settle().await;
    api.create(mk_domain("a"));
    api.until("ready", |api| is_ready(api, "a")).await;
    let now = api.get(Resource::Templates, TEAM, "foreign");
    assert_eq!(now, Some(foreign));
    controller.stop().await;
}

// req: CD-11
#[tokio::test(start_paused = true)]
async fn a_deleted_template_is_created_again() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    api.create(mk_domain("a"));
    api.until("ready", |api| is_ready(api, "a")).await;
    let before = uid(&template(&api, "a").unwrap());
    api.delete(Resource::Templates, TEAM, "a-channel");
    api.until("back", |api| is_replaced(api, "a", &before))
        .await;
    controller.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_template_held_by_other_finalizers_is_reported_until_it_is_gone() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    api.create(mk_domain("a"));
    api.until("ready", |api| is_ready(api, "a")).await;
    hold_template(&api, "a");
    api.delete(Resource::Templates, TEAM, "a-channel");
    api.until("held", |api| reason(api, "a") == "TemplateHeld")
        .await;
    strip_finalizers(&api, Resource::Templates, "a-channel");
    api.until("ready again", |api| is_ready(api, "a")).await;
    controller.stop().await;
}

// req: CD-11
#[tokio::test(start_paused = true)]
async fn a_template_of_the_go_driver_is_taken_over_as_it_is() {
    let api = FakeApi::new();
    let mut taken_over = mk_domain("a");
    taken_over["spec"]["channel"]["allocationMode"] = json!("All");
    let uid = uid(&api.create(taken_over));
    let before = api.create(mk_template_of_go("a-channel", &uid));
    let controller = Controller::start(&api);
    api.until("ready", |api| is_ready(api, "a")).await;
    api.after(Duration::from_secs(60)).await;
    assert_eq!(template(&api, "a").unwrap(), before);
    controller.stop().await;
}

/// Changes that policies and webhooks make to our templates: another class, no labels, labels of another domain,
/// no labels and other content, so that nothing identifies the owner.
const CHANGES: [fn(&mut Value); 4] = [
    |template| {
        let request = &mut template["spec"]["spec"]["devices"]["requests"][0];
        request["exactly"]["deviceClassName"] = json!("other.example.com");
    },
    |template| template["metadata"]["labels"] = json!({}),
    |template| template["metadata"]["labels"][DOMAIN_LABEL] = json!("another"),
    |template| {
        template["metadata"]["labels"] = json!({});
        alter(template);
    },
];

#[tokio::test(start_paused = true)]
async fn a_policy_that_changes_every_template_is_reported_and_leaves_no_template() {
    for change in CHANGES {
        let api = FakeApi::new();
        api.change_when_stored(Resource::Templates, change);
        let controller = Controller::start(&api);
        api.create(mk_domain("a"));
        api.until("named", |api| reason(api, "a") == "TemplateChanged")
            .await;
        api.forget_requests();
        api.after(Duration::from_secs(3_600)).await;
        assert_eq!(api.count(Call::WriteStatus), 0, "already reported");
        let attempts = api.count(Call::CreateTemplate);
        assert!((50..80).contains(&attempts), "{attempts}");
        // Create, delete, release; the domain of a false label may release it, too.
        assert!(api.writes() <= 4 * attempts, "{:?}", api.calls());
        assert!(template(&api, "a").is_none());
        api.change_when_stored(Resource::Templates, |_| {});
        api.until("ready", |api| is_ready(api, "a")).await;
        controller.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_altered_template_stays_while_no_new_one_can_be_created() {
    let api = FakeApi::new();
    let controller = Controller::start(&api);
    api.create(mk_domain("a"));
    api.until("ready", |api| is_ready(api, "a")).await;
    api.break_with(Rule::always(
        Call::DryRunTemplate,
        Fault::Forbidden("denied"),
    ));
    edit_template(&api, "a", alter);
    api.until("named", |api| reason(api, "a") == "TemplateRefused")
        .await;
    assert!(message(&api, "a").contains("denied"));
    assert_eq!(api.count(Call::DeleteTemplate), 0);
    api.heal();
    api.until("ready", |api| is_ready(api, "a")).await;
    controller.stop().await;
}
