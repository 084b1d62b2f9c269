use compute_domain_api::clique::ComputeDomainClique;
use compute_domain_api::crd::ComputeDomain;
use kube::CustomResourceExt as _;

use super::*;
use crate::fake_api::{Call, FakeApi, Fault, Resource, Rule};
use crate::testing::objects::*;

const GO_CRD: &str = include_str!("../../api/fixtures/computedomains-go.yaml");

fn crd(api: &FakeApi) -> Option<Value> {
    api.get(Resource::Crds, "", ComputeDomain::crd_name())
}

fn clique_crd(api: &FakeApi) -> Option<Value> {
    api.get(Resource::Crds, "", ComputeDomainClique::crd_name())
}

/// Creates the Go driver's CRD, as Helm does.
fn create_go_crd(api: &FakeApi) {
    let mut crd: Value = serde_saphyr::from_str(GO_CRD).unwrap();
    crd["status"] = json!({ "storedVersions": ["v1beta1"] });
    api.create(crd);
}

/// Creates the CRD of a newer chart, with one more status field.
fn create_newer_crd(api: &FakeApi) {
    let mut crd = json!(ComputeDomain::crd());
    crd["status"] = json!({ "storedVersions": ["v1beta1"] });
    status_fields(&mut crd)["newer"] = json!({ "type": "string" });
    api.create(crd);
}

fn status_fields(crd: &mut Value) -> &mut Value {
    &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
}

async fn applies(api: &FakeApi) {
    assert_eq!(apply(&api.client(), false).await.unwrap(), Outcome::Applied);
    assert_eq!(
        crd(api).unwrap()["spec"],
        json!(ComputeDomain::crd())["spec"]
    );
    assert_eq!(
        clique_crd(api).unwrap()["spec"],
        json!(ComputeDomainClique::crd())["spec"]
    );
}

async fn is_refused(api: &FakeApi, words: &str) {
    let before = crd(api);
    match apply(&api.client(), false).await.unwrap() {
        Outcome::Refused(why) => assert!(why.contains(words), "{why}"),
        Outcome::Applied => panic!("applied"),
    }
    assert_eq!(crd(api), before);
    assert_eq!(api.count(Call::ApplyCrd), 0);
}

#[tokio::test(start_paused = true)]
async fn the_crd_is_created_and_a_second_run_changes_nothing() {
    let api = FakeApi::new();
    applies(&api).await;
    let version = |crd: Value| crd["metadata"]["resourceVersion"].clone();
    let first = version(crd(&api).unwrap());
    applies(&api).await;
    assert_eq!(version(crd(&api).unwrap()), first);
}

// req: CD-4
#[tokio::test(start_paused = true)]
async fn the_go_drivers_crd_is_taken_over_while_domains_exist() {
    let api = FakeApi::new();
    create_go_crd(&api);
    api.create(mk_domain("a"));
    applies(&api).await;
    assert!(domain(&api, "a").is_some());
}

#[tokio::test(start_paused = true)]
async fn an_apply_killed_at_any_step_is_finished_by_the_next_one() {
    for call in [Call::GetCrd, Call::ApplyCrd] {
        for fault in [Fault::RequestLost, Fault::AnswerLost, Fault::Unavailable] {
            for skip in 0..3 {
                let api = FakeApi::new();
                create_go_crd(&api);
                api.break_with(Rule::once(call, fault).after(skip));
                // Its writes remain, and its state is lost.
                let _ = apply(&api.client(), false).await;
                api.heal();
                applies(&api).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_crd_changed_before_the_apply_is_checked_again() {
    let api = FakeApi::new();
    create_go_crd(&api);
    api.break_with(Rule::once(Call::ApplyCrd, Fault::Conflict).times(2));
    applies(&api).await;
    // Three times that CRD, and once the other.
    assert_eq!(api.count(Call::ApplyCrd), 4);
    api.break_with(Rule::always(Call::ApplyCrd, Fault::Conflict));
    assert!(matches!(
        apply(&api.client(), false).await,
        Err(CrdError::Changing { .. })
    ));
}

// req: CD-4
#[tokio::test(start_paused = true)]
async fn a_newer_crd_is_replaced_only_while_no_domain_needs_it() {
    let api = FakeApi::new();
    create_newer_crd(&api);
    api.create(mk_domain("a"));
    api.create(mk_domain("b"));
    api.edit(Resource::Domains, TEAM, "b", |domain| {
        domain["status"] = json!({ "newer": "x" });
    });
    is_refused(
        &api,
        "1 ComputeDomains (team/b) have fields that the CustomResourceDefinition of this chart lacks (status.newer)",
    )
    .await;
    assert_eq!(apply(&api.client(), true).await.unwrap(), Outcome::Applied);

    let api = FakeApi::new();
    create_newer_crd(&api);
    api.create(mk_domain("a"));
    applies(&api).await;
}

// req: CD-4
#[tokio::test(start_paused = true)]
async fn a_newer_crd_of_cliques_is_replaced_only_while_no_clique_needs_it() {
    let api = FakeApi::new();
    let mut newer = json!(ComputeDomainClique::crd());
    newer["status"] = json!({ "storedVersions": ["v1beta1"] });
    newer["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["newer"] =
        json!({ "type": "string" });
    api.create(newer);
    api.create(json!({
        "kind": "ComputeDomainClique",
        "metadata": { "name": "a.0", "namespace": "imex-dra" },
        "newer": "x",
    }));
    let before = clique_crd(&api);
    match apply(&api.client(), false).await.unwrap() {
        Outcome::Refused(why) => assert!(
            why.contains("1 ComputeDomainCliques (imex-dra/a.0) have fields")
                && why.contains("(newer)"),
            "{why}"
        ),
        Outcome::Applied => panic!("applied"),
    }
    assert_eq!(clique_crd(&api), before);
    api.delete(Resource::Cliques, "imex-dra", "a.0");
    applies(&api).await;
}

#[tokio::test(start_paused = true)]
async fn a_crd_with_an_unknown_stored_version_is_never_replaced() {
    let api = FakeApi::new();
    create_go_crd(&api);
    api.edit(Resource::Crds, "", ComputeDomain::crd_name(), |crd| {
        crd["status"]["storedVersions"] = json!(["v1beta1", "v1"]);
    });
    is_refused(&api, "stored in version \"v1\"").await;
    assert_ne!(apply(&api.client(), true).await.unwrap(), Outcome::Applied);
}

#[tokio::test(start_paused = true)]
async fn a_crd_that_is_never_served_is_an_error() {
    let api = FakeApi::new();
    create_go_crd(&api);
    // The apply has no effect, so the CRD is never served.
    api.edit(Resource::Crds, "", ComputeDomain::crd_name(), |crd| {
        crd["status"]["conditions"] = json!([{ "type": "Established", "status": "False" }]);
    });
    let resource = kube::core::ApiResource::erase::<CustomResourceDefinition>(&());
    let served = until_served(
        &Api::all_with(api.client(), &resource),
        ComputeDomain::crd_name(),
    )
    .await;
    assert!(matches!(served, Err(CrdError::NotServed { .. })));
}
