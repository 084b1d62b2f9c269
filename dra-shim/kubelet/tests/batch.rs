//! Several claims at once, in one call and in several; and the older version alone.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dra_kubelet::{ClaimSource, GetClaimError};
use tokio::sync::{Barrier, watch};
use tonic::Code;

use crate::support::proto::v1beta1;
use crate::support::{
    Claims, Script, devices, prepare_request, soon, start, start_with, unprepare_request, until,
};

const LONG: Duration = Duration::from_secs(45);

/// A source that answers only when all claims of a batch are being read.
struct Together(Barrier, Claims);

#[cfg(test)]
impl ClaimSource for Together {
    async fn get(&self, namespace: &str, name: &str) -> Result<String, GetClaimError> {
        self.0.wait().await;
        self.1.get(namespace, name).await
    }
}

// req: KUBELET-29
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

// req: KUBELET-29
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

// req: KUBELET-15
#[tokio::test]
async fn a_duplicate_claim_in_a_call_is_prepared_and_answered_once() {
    let running = start(Script::instant(), Claims::allocated(&["a"]));
    let answer = running
        .dra()
        .await
        .node_prepare_resources(prepare_request(&["a", "a"], LONG))
        .await;
    assert_eq!(answer.unwrap().into_inner().claims.len(), 1);
}

#[tokio::test]
async fn a_call_with_too_many_claims_is_refused_before_any_work() {
    let running = start(Script::instant(), Claims::allocated(&[]));
    let names: Vec<_> = (0..10_000).map(|n| format!("claim-{n}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut client = running.dra().await;
    let refused = client
        .node_prepare_resources(prepare_request(&names, LONG))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("10000 claims"), "{refused}");
    let answers = client
        .node_prepare_resources(prepare_request(&names[..1024], LONG))
        .await
        .unwrap();
    assert_eq!(answers.into_inner().claims.len(), 1024);
}

#[tokio::test]
async fn concurrent_prepares_are_limited_and_do_not_block_unprepare() {
    let names: Vec<_> = (0..200).map(|n| format!("claim-{n}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let (let_go, gate) = watch::channel(false);
    let under_way = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (counted, highest) = (Arc::clone(&under_way), Arc::clone(&most));
    let driver = Script::preparing(move |_, claim| {
        let (counted, highest, mut gate) =
            (Arc::clone(&counted), Arc::clone(&highest), gate.clone());
        async move {
            highest.fetch_max(counted.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            gate.wait_for(|open| *open).await.unwrap();
            counted.fetch_sub(1, Ordering::SeqCst);
            Ok(devices(&claim))
        }
    });
    let running = start(driver, Claims::allocated(&names));
    let (mut prepares, mut unprepares) = (running.dra().await, running.dra().await);
    let call = prepares.node_prepare_resources(prepare_request(&names, LONG));
    let meanwhile = async {
        until("a full plugin", || under_way.load(Ordering::SeqCst) >= 32).await;
        let other = unprepare_request(&["other"], LONG);
        let answer = soon("unprepare", unprepares.node_unprepare_resources(other)).await;
        assert_eq!(answer.unwrap().into_inner().claims["uid-other"].error, "");
        let_go.send_replace(true);
    };
    let (answers, ()) = tokio::join!(soon("the answers", call), meanwhile);
    let answers = answers.unwrap().into_inner().claims;
    assert!(answers.values().all(|answer| answer.error.is_empty()));
    assert_eq!((answers.len(), most.load(Ordering::SeqCst)), (200, 32));
}

// req: KUBELET-14
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
