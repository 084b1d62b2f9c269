//! Requests of a domain's look-up, and which answers are cached.

use dra_kubelet::ErrorClass;
use futures_util::future::join_all;
use serde_json::json;

use super::*;
use crate::tests::api_server::{ApiServer, DOMAIN};
use crate::tests::node::mk_ref;

fn mk_claim(name: Option<&str>) -> Claim {
    let json = r#"{"metadata": {"uid": "c"}, "status": {"allocation": {}}}"#;
    let mut claim = Claim::parse(json, &mk_ref("ns", "c"), "d").unwrap();
    if let Some(name) = name {
        let key = DOMAIN_NAME_ANNOTATION.to_owned();
        claim.annotations.insert(key, name.to_owned());
    }
    claim
}

fn domain() -> DomainUid {
    DomainUid::parse(DOMAIN).unwrap()
}

fn mk_server() -> (ApiServer, DomainLookup) {
    let server = ApiServer::default();
    server.put_domain("ns", "train", DOMAIN);
    let lookup = DomainLookup::new(server.client(), Isolation::None);
    (server, lookup)
}

async fn exists(lookup: &DomainLookup, name: Option<&str>) -> Result<bool, ClaimError> {
    exists_as(lookup, &mk_claim(name), &domain()).await
}

async fn exists_as(
    lookup: &DomainLookup,
    claim: &Claim,
    uid: &DomainUid,
) -> Result<bool, ClaimError> {
    let state = lookup.state(claim, uid).await?;
    Ok(state != DomainState::Missing)
}

#[tokio::test]
async fn an_existing_domain_is_read_once_by_name_and_cached() {
    let (server, lookup) = mk_server();
    for _ in 0..3 {
        assert!(exists(&lookup, Some("train")).await.unwrap());
    }
    // Another claim of the domain needs no name.
    assert!(exists(&lookup, None).await.unwrap());
    assert_eq!(server.requests(), ["get computedomains"]);
}

#[tokio::test]
async fn a_new_domain_is_found_at_the_first_look_up() {
    let server = ApiServer::default();
    let lookup = DomainLookup::new(server.client(), Isolation::None);
    for name in [Some("train"), None] {
        let uid = format!("{}-{}", name.is_some(), "1234-4567-89ab-0123456789ab");
        let uid = DomainUid::parse(&uid).unwrap();
        let other = DomainUid::parse("other").unwrap();
        assert!(!exists_as(&lookup, &mk_claim(name), &other).await.unwrap());
        server.put_domain("ns", "train", uid.as_str());
        assert!(exists_as(&lookup, &mk_claim(name), &uid).await.unwrap());
    }
}

#[tokio::test]
async fn concurrent_look_ups_share_one_request() {
    let (server, lookup) = mk_server();
    let claim = mk_claim(Some("train"));
    let uid = domain();
    let answers = join_all((0..16).map(|_| exists_as(&lookup, &claim, &uid))).await;
    assert!(answers.into_iter().all(|answer| answer.unwrap()));
    assert_eq!(server.requests(), ["get computedomains"]);

    let missing = mk_claim(Some("gone"));
    let other = DomainUid::parse("other").unwrap();
    let answers = join_all((0..16).map(|_| exists_as(&lookup, &missing, &other))).await;
    assert!(!answers.into_iter().any(|answer| answer.unwrap()));
    assert_eq!(server.requests(), ["get computedomains"]);
}

#[tokio::test]
async fn a_look_up_without_a_waiter_is_started_again() {
    let (server, lookup) = mk_server();
    let claim = mk_claim(Some("train"));
    let uid = domain();
    {
        let mut dropped = Box::pin(exists_as(&lookup, &claim, &uid));
        assert!(futures_util::poll!(&mut dropped).is_pending());
    }
    assert!(exists(&lookup, Some("train")).await.unwrap());
    assert!(server.requests().len() <= 2);
}

// req: NODE-7
#[tokio::test(start_paused = true)]
async fn a_missing_domain_or_another_uid_is_looked_up_once_a_minute() {
    let (server, lookup) = mk_server();
    server.put_domain("ns", "recreated", "another-uid");
    for name in ["recreated", "deleted"] {
        for _ in 0..2 {
            for _ in 0..5 {
                assert!(!exists(&lookup, Some(name)).await.unwrap());
            }
            assert_eq!(server.requests(), ["get computedomains"]);
            tokio::time::sleep(MISSING_FOR).await;
        }
    }
    // A wrong name in one claim does not affect other claims.
    assert!(exists(&lookup, Some("train")).await.unwrap());
}

#[tokio::test]
async fn without_a_name_the_namespace_is_listed_page_by_page_up_to_the_domain() {
    let (server, lookup) = mk_server();
    for number in 0..1200 {
        server.put_domain("ns", &format!("a{number:04}"), &format!("uid-{number}"));
        server.put_domain("other", &format!("z{number:04}"), "uid");
    }
    // A name that is not a path segment is ignored.
    for name in [None, Some("../secrets/s"), Some(".."), Some("")] {
        let lookup = DomainLookup::new(server.client(), Isolation::None);
        assert!(exists(&lookup, name).await.unwrap());
        assert_eq!(server.requests(), ["list computedomains"; 3], "{name:?}");
    }
    let first = DomainUid::parse("uid-3").unwrap();
    assert!(exists_as(&lookup, &mk_claim(None), &first).await.unwrap());
    assert_eq!(server.requests().len(), 1);
    let unknown = DomainUid::parse("unknown").unwrap();
    assert!(!exists_as(&lookup, &mk_claim(None), &unknown).await.unwrap());
}

// req: NODE-8
#[tokio::test]
async fn any_other_failure_is_retried_and_reported_in_one_sentence() {
    let (server, lookup) = mk_server();
    let forbidden = r#"{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"details":{},
        "message":"computedomains.resource.nvidia.com \"train\" is forbidden"}"#;
    let other = r#"{"kind":"Status","status":"Failure","reason":"NotFound","code":404,
        "message":"computedomains.resource.nvidia.com \"other\" not found",
        "details":{"name":"other","group":"resource.nvidia.com","kind":"computedomains"}}"#;
    let not_served =
        "the API server does not serve ComputeDomains (HTTP 404); is the CRD installed?";
    for (code, body, reason) in [
        (404, "404 page not found\n", not_served),
        (404, "<html>404 Not Found</html>", not_served),
        (404, other, not_served),
        (
            403,
            forbidden,
            "computedomains.resource.nvidia.com \"train\" is forbidden",
        ),
        (
            502,
            "<html>Bad Gateway</html>",
            "the API server responded with HTTP 502",
        ),
        (503, "", "the API server responded with HTTP 503"),
    ] {
        server.refuse(Some((code, body)));
        for name in [Some("train"), None] {
            let error = exists(&lookup, name).await.unwrap_err();
            assert_eq!(
                (error.class(), error.code()),
                (ErrorClass::Retry, "domain-lookup")
            );
            let sentence = format!("cannot look up the ComputeDomain: {reason}");
            assert_eq!(error.message(), sentence, "{code} {body}");
        }
    }
    server.refuse(None);
    assert!(exists(&lookup, Some("train")).await.unwrap());
}

#[tokio::test]
async fn the_cache_is_bounded() {
    let (server, lookup) = mk_server();
    for number in 0..=MAX_REMEMBERED {
        let uid = format!("uid-{number}");
        server.put_domain("ns", "train", &uid);
        let uid = DomainUid::parse(&uid).unwrap();
        assert!(
            exists_as(&lookup, &mk_claim(Some("train")), &uid)
                .await
                .unwrap()
        );
        assert!(
            !exists_as(
                &lookup,
                &mk_claim(Some("gone")),
                &DomainUid::parse("x").unwrap()
            )
            .await
            .unwrap()
        );
    }
    let memory = lookup.memory();
    assert!(memory.existing.len() + memory.missing.len() <= MAX_REMEMBERED);
    assert!(memory.under_way.len() <= 1);
}

#[tokio::test]
async fn a_channel_is_cached_and_a_missing_one_is_not() {
    let server = ApiServer::default();
    server.put_domain("ns", "train", DOMAIN);
    let lookup = DomainLookup::new(server.client(), Isolation::Channel);
    let claim = mk_claim(Some("train"));
    let mut states = Vec::new();
    for status in [
        json!({}),
        json!({"conditions": [{"type": "Ready", "reason": "NoChannelFree"}]}),
        // Written by another writer, before the controller's condition.
        json!({"channel": 5}),
        json!({"channel": 5, "conditions": [{"type": "Other", "reason": "x"}, 7]}),
        json!({"channel": "5", "conditions": [{"type": "Ready", "reason": "Admitted"}]}),
        json!({"channel": 5, "conditions": [{"type": "Ready", "reason": "ChannelNotConfirmed"}]}),
        json!({"channel": 5, "conditions": [{"type": "Ready", "reason": "Admitted"}]}),
        json!({"channel": 6}),
    ] {
        server.set_domain_status("ns", "train", status);
        states.push(lookup.state(&claim, &domain()).await.unwrap());
    }
    let five = ChannelId::new(5).unwrap();
    let (unassigned, assigned) = (DomainState::Unassigned, DomainState::Assigned(five));
    assert_eq!(states[..5], [unassigned; 5]);
    assert_eq!(
        states[5..],
        [DomainState::NotConfirmed(five), assigned, assigned]
    );
    assert_eq!(server.requests(), ["get computedomains"; 7]);
}
