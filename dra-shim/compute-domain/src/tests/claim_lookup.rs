//! Requests of a look-up of claims, in clusters of any size.

use std::collections::BTreeSet;

use compute_domain_api::names::DRIVER_NAME;
use dra_checkpoint::ClaimRef;
use node_claims::Presence;
use plugin_parts::ClaimLookup;

use super::api_server::ApiServer;

fn mk_server(others: u32) -> (ApiServer, ClaimLookup) {
    let server = ApiServer::default();
    for number in 0..others {
        server.put_claim("jobs", &format!("other-{number:06}"));
    }
    let lookup = ClaimLookup::new(server.client(), DRIVER_NAME, "n1");
    (server, lookup)
}

fn mk_name(uid: &str) -> ClaimRef {
    ClaimRef {
        uid: uid.to_owned(),
        name: uid.to_owned(),
        namespace: "ns".to_owned(),
    }
}

fn mk_uids(uids: &[&str]) -> BTreeSet<String> {
    uids.iter().map(|uid| (*uid).to_owned()).collect()
}

async fn allocated(lookup: &ClaimLookup, uids: &[&str]) -> Vec<String> {
    let found = lookup.find_allocated(&mk_uids(uids)).await.unwrap();
    found.into_iter().map(|found| found.claim.uid).collect()
}

#[tokio::test]
async fn a_claim_is_absent_only_by_its_object_or_by_a_404_that_names_it() {
    let (server, lookup) = mk_server(0);
    server.put_claim("ns", "a");
    assert_eq!(lookup.presence(&mk_name("a")).await, Presence::Present);
    server.change_claim("ns", "a", |claim| claim["status"] = serde_json::json!({}));
    assert_eq!(lookup.presence(&mk_name("a")).await, Presence::Absent);
    server.delete_claim("ns", "a");
    assert_eq!(lookup.presence(&mk_name("a")).await, Presence::Absent);
    assert_eq!(server.requests(), ["get resourceclaims"; 3]);

    for refusal in [
        (404, "404 page not found\n"),
        (404, "<html>"),
        (500, ""),
        (403, "{}"),
        (200, "{}"),
    ] {
        server.refuse(Some(refusal));
        let found = lookup.presence(&mk_name("a")).await;
        assert_eq!(found, Presence::Unknown, "{refusal:?}");
    }
    server.refuse(None);
    server.requests();
    let elsewhere = lookup.presence(&mk_name("../../secrets/s")).await;
    assert_eq!((elsewhere, server.requests().len()), (Presence::Unknown, 0));
}

#[tokio::test]
async fn a_rebuild_needs_no_request_if_no_claim_can_be_lost() {
    let (server, lookup) = mk_server(10);
    assert!(allocated(&lookup, &[]).await.is_empty());
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn a_rebuild_ends_with_the_page_of_the_last_claim_that_may_be_lost() {
    let (server, lookup) = mk_server(1200);
    let found = allocated(&lookup, &["other-000499", "other-000003"]).await;
    assert_eq!(found, ["other-000003", "other-000499"]);
    assert_eq!(server.requests(), ["list resourceclaims"]);
    assert_eq!(allocated(&lookup, &["other-000500"]).await.len(), 1);
    assert_eq!(server.requests(), ["list resourceclaims"; 2]);
}

#[tokio::test]
async fn a_rebuild_restores_only_claims_allocated_here_whatever_the_pools_name() {
    let (server, lookup) = mk_server(0);
    for name in ["here", "elsewhere", "freed"] {
        server.put_claim("ns", name);
    }
    server.change_claim("ns", "elsewhere", |claim| {
        let values = "/status/allocation/nodeSelector/nodeSelectorTerms/0/matchFields/0/values/0";
        *claim.pointer_mut(values).unwrap() = "n2".into();
    });
    server.change_claim("ns", "freed", |claim| {
        claim["status"]
            .as_object_mut()
            .unwrap()
            .remove("allocation");
    });
    let found = allocated(&lookup, &["elsewhere", "freed", "gone", "here"]).await;
    assert_eq!(found, ["here"]);
}

#[tokio::test]
async fn an_expired_token_restarts_the_list_a_limited_number_of_times() {
    let (server, lookup) = mk_server(1200);
    server.expire_tokens(2);
    assert_eq!(allocated(&lookup, &["other-001199"]).await.len(), 1);
    assert_eq!(server.requests().len(), 7); // twice a page and a refusal, then three pages

    server.expire_tokens(3);
    let error = lookup
        .find_allocated(&mk_uids(&["other-001199"]))
        .await
        .unwrap_err();
    assert!(matches!(error, kube::Error::Api(status) if status.code == 410));
    assert_eq!(server.requests().len(), 6);
}

#[tokio::test]
async fn a_search_through_a_hundred_thousand_claims_ends() {
    let (server, lookup) = mk_server(0);
    server.put_pending_claims(100_000);
    server.put_claim("ns", "holder");
    let found = allocated(&lookup, &["gone", "holder"]).await;
    assert_eq!(found, ["holder"]);
    assert_eq!(server.requests().len(), 201);
}

#[tokio::test]
async fn names_are_found_in_all_namespaces_until_all_are_found() {
    let (server, lookup) = mk_server(1200);
    server.put_claim("ns", "a");
    let found = lookup
        .find_names(&mk_uids(&["other-000001", "other-000700"]))
        .await
        .unwrap();
    assert_eq!(found["other-000700"].namespace, "jobs");
    assert_eq!(server.requests(), ["list resourceclaims"; 2]);
    let found = lookup.find_names(&mk_uids(&["a", "gone"])).await.unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(server.requests().len(), 3);
}
