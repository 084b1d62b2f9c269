//! Several claims at once, in one call and in many; and the older version alone.
#![allow(missing_docs, reason = "a test")]

#[cfg(test)]
mod support;

use std::sync::Arc;
use std::time::Duration;

use dra_kubelet::{ClaimSource, GetClaimError};
use support::proto::v1beta1;
use support::{Claims, Script, devices, prepare_request, soon, start, start_with};
use tokio::sync::Barrier;
use tonic::Code;

const LONG: Duration = Duration::from_secs(45);

/// Answers only when all claims of a batch are being read.
struct Together(Barrier, Claims);

#[cfg(test)]
impl ClaimSource for Together {
    async fn get(&self, namespace: &str, name: &str) -> Result<String, GetClaimError> {
        self.0.wait().await;
        self.1.get(namespace, name).await
    }
}

#[tokio::test]
async fn the_claims_of_a_call_are_read_concurrently() {
    let names = ["a", "b", "c"];
    let claims = Together(Barrier::new(names.len()), Claims::allocated(&names));
    let running = start(Script::instant(), claims);
    let mut client = running.dra().await;
    let answer = client.node_prepare_resources(prepare_request(&names, LONG));
    let answers = soon("the answer", answer)
        .await
        .unwrap()
        .into_inner()
        .claims;
    assert!(
        answers.values().all(|answer| answer.error.is_empty()),
        "{answers:?}"
    );
}

#[tokio::test]
async fn claims_of_different_calls_are_prepared_concurrently() {
    let both = Arc::new(Barrier::new(2));
    let driver = Script::preparing(move |_, claim| {
        let both = Arc::clone(&both);
        async move {
            both.wait().await;
            Ok(devices(&claim))
        }
    });
    let running = start(driver, Claims::allocated(&["a", "b"]));
    let mut one = running.dra().await;
    let mut two = one.clone();
    let (one, two) = tokio::join!(
        soon(
            "a",
            one.node_prepare_resources(prepare_request(&["a"], LONG))
        ),
        soon(
            "b",
            two.node_prepare_resources(prepare_request(&["b"], LONG))
        ),
    );
    assert_eq!(one.unwrap().into_inner().claims["uid-a"].error, "");
    assert_eq!(two.unwrap().into_inner().claims["uid-b"].error, "");
}

#[tokio::test]
async fn a_claim_that_occurs_twice_in_a_call_is_prepared_and_answered_once() {
    let running = start(Script::instant(), Claims::allocated(&["a"]));
    let answer = running
        .dra()
        .await
        .node_prepare_resources(prepare_request(&["a", "a"], LONG))
        .await;
    assert_eq!(answer.unwrap().into_inner().claims.len(), 1);
}

#[tokio::test]
async fn the_older_version_can_be_offered_alone() {
    let running = start_with(Script::instant(), Claims::allocated(&["a"]), |builder| {
        builder.only_v1beta1()
    });
    let info = running.info().await;
    assert_eq!(
        info.supported_versions,
        ["v1beta1.DRAPlugin", "v1alpha1.DRAResourceHealth"]
    );

    let mut client = v1beta1::dra_plugin_client::DraPluginClient::new(running.service().await);
    let request = v1beta1::NodePrepareResourcesRequest {
        claims: vec![v1beta1::Claim {
            namespace: "ns".into(),
            name: "a".into(),
            uid: "uid-a".into(),
        }],
    };
    let answer = client.node_prepare_resources(request).await.unwrap();
    let answer = answer.into_inner();
    assert_eq!(answer.claims["uid-a"].devices[0].device_name, "d0");

    let newer = running
        .dra()
        .await
        .node_prepare_resources(prepare_request(&["a"], LONG))
        .await
        .unwrap_err();
    assert_eq!(newer.code(), Code::Unimplemented);
}
