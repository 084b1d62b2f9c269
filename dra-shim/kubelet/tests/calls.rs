//! Prepare and Unprepare over real sockets: every claim gets an answer, in time.
#![allow(missing_docs, reason = "a test")]

#[cfg(test)]
mod support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dra_kubelet::{ClaimError, ClaimSource, GetClaimError};
use support::proto::v1beta1;
use support::{Claims, DRIVER, Script, devices, prepare_request, soon, start, unprepare_request};

const LONG: Duration = Duration::from_secs(45);

#[tokio::test]
async fn a_replaced_an_unallocated_a_missing_and_a_good_claim_get_four_answers() {
    let claims = Claims::allocated(&["good"]);
    claims.put("replaced", "another-uid", Some(DRIVER));
    claims.put("unallocated", "uid-unallocated", None);
    let running = start(Script::instant(), claims);

    let names = ["replaced", "unallocated", "missing", "good"];
    let answer = running
        .dra()
        .await
        .node_prepare_resources(prepare_request(&names, LONG))
        .await;
    let answers = answer.unwrap().into_inner().claims;

    assert_eq!(answers.len(), 4);
    assert!(
        answers["uid-replaced"].error.contains("replaced"),
        "{answers:?}"
    );
    assert!(
        answers["uid-unallocated"].error.contains("not allocated"),
        "{answers:?}"
    );
    assert!(
        answers["uid-missing"].error.contains("does not exist"),
        "{answers:?}"
    );
    assert_eq!(answers["uid-good"].error, "");
    let device = &answers["uid-good"].devices[0];
    assert_eq!(device.request_names, ["r"]);
    assert_eq!(
        (device.pool_name.as_str(), device.device_name.as_str()),
        ("n1", "d0")
    );
    assert_eq!(device.cdi_device_ids, ["example.com/test=uid-good"]);
    assert_eq!(device.share_id.as_deref(), Some("share-1"));
}

#[tokio::test]
async fn the_older_version_of_the_service_works_too() {
    let running = start(Script::instant(), Claims::allocated(&["a"]));
    let mut client = v1beta1::dra_plugin_client::DraPluginClient::new(running.service().await);
    let claim = v1beta1::Claim {
        namespace: "ns".into(),
        name: "a".into(),
        uid: "uid-a".into(),
    };

    let request = v1beta1::NodePrepareResourcesRequest {
        claims: vec![claim.clone()],
    };
    let answer = client
        .node_prepare_resources(request)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(answer.claims["uid-a"].devices[0].device_name, "d0");

    let request = v1beta1::NodeUnprepareResourcesRequest {
        claims: vec![claim],
    };
    let answer = client
        .node_unprepare_resources(request)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(answer.claims["uid-a"].error, "");
}

#[tokio::test]
async fn an_unprepare_needs_no_claim_object() {
    let running = start(Script::instant(), Claims::default());
    let mut client = running.dra().await;
    let answer = client.node_unprepare_resources(unprepare_request(&["gone"], LONG));
    assert_eq!(
        answer.await.unwrap().into_inner().claims["uid-gone"].error,
        ""
    );
}

#[tokio::test]
async fn what_may_pass_is_tried_again_inside_the_call() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&attempts);
    let driver = Script::preparing(move |_, claim| {
        let attempt = counter.fetch_add(1, Ordering::SeqCst);
        async move {
            if attempt < 2 {
                return Err(ClaimError::retry("not yet"));
            }
            Ok(devices(&claim))
        }
    });
    let running = start(driver, Claims::allocated(&["a"]));
    let answer = running
        .dra()
        .await
        .node_prepare_resources(prepare_request(&["a"], LONG))
        .await;
    assert_eq!(answer.unwrap().into_inner().claims["uid-a"].error, "");
    assert_eq!(attempts.load(Ordering::SeqCst), 3);
}

/// Fails with these errors, the last one first, then hands out the claims.
#[cfg(test)]
struct Late(Mutex<Vec<GetClaimError>>, Claims);

#[cfg(test)]
impl ClaimSource for Late {
    async fn get(&self, namespace: &str, name: &str) -> Result<String, GetClaimError> {
        let error = self.0.lock().unwrap().pop();
        match error {
            Some(error) => Err(error),
            None => self.1.get(namespace, name).await,
        }
    }
}

#[tokio::test]
async fn a_claim_that_cannot_be_read_at_first_is_prepared_inside_the_call() {
    let refused = kube::core::Status::failure("etcd is away", "InternalError");
    let refused = kube::Error::Api(refused.with_code(500).boxed());
    let errors = vec![
        GetClaimError::Api(Box::new(refused)),
        GetClaimError::Source("the cache is cold".into()),
    ];
    let running = start(
        Script::instant(),
        Late(Mutex::new(errors), Claims::allocated(&["a"])),
    );
    let answer = running
        .dra()
        .await
        .node_prepare_resources(prepare_request(&["a"], LONG))
        .await;
    assert_eq!(answer.unwrap().into_inner().claims["uid-a"].error, "");
}

#[tokio::test]
async fn an_own_sources_error_reaches_the_user_with_all_its_reasons() {
    #[derive(Debug, thiserror::Error)]
    #[error("the cache is cold")]
    struct Cold(#[source] std::io::Error);

    struct Never;
    impl ClaimSource for Never {
        async fn get(&self, _: &str, _: &str) -> Result<String, GetClaimError> {
            let cold = Cold(std::io::Error::other("its file is damaged"));
            Err(GetClaimError::Source(cold.into()))
        }
    }
    let running = start(Script::instant(), Never);
    let request = prepare_request(&["a"], Duration::from_secs(2));
    let answer = running.dra().await.node_prepare_resources(request).await;
    assert_eq!(
        answer.unwrap().into_inner().claims["uid-a"].error,
        "the ResourceClaim could not be read: the cache is cold: its file is damaged"
    );
}

#[tokio::test]
async fn what_does_not_pass_is_answered_with_the_last_error_before_the_deadline() {
    let attempts = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&attempts);
    let driver = Script::preparing(move |_, _| {
        let attempt = counter.fetch_add(1, Ordering::SeqCst);
        async move {
            Err(ClaimError::retry(format_args!(
                "still broken, attempt {attempt}"
            )))
        }
    });
    let running = start(driver, Claims::allocated(&["a"]));
    let mut client = running.dra().await;
    let timeout = Duration::from_secs(3);
    let began = Instant::now();
    let answer = client
        .node_prepare_resources(prepare_request(&["a"], timeout))
        .await;
    assert!(began.elapsed() < timeout, "{:?}", began.elapsed());
    let attempts = attempts.load(Ordering::SeqCst);
    assert!(attempts >= 2, "{attempts}");
    let last = format!("still broken, attempt {}", attempts - 1);
    assert_eq!(answer.unwrap().into_inner().claims["uid-a"].error, last);
}

#[tokio::test]
async fn what_cannot_pass_is_answered_at_once() {
    let driver = Script::preparing(|_, _| async { Err(ClaimError::permanent("never")) });
    let running = start(driver, Claims::allocated(&["a"]));
    let mut client = running.dra().await;
    let answer = client.node_prepare_resources(prepare_request(&["a"], LONG));
    let answer = soon("the answer", answer).await.unwrap().into_inner();
    assert_eq!(answer.claims["uid-a"].error, "never");
}

#[tokio::test]
async fn a_driver_that_hangs_does_not_keep_the_other_claims_from_their_answer() {
    let driver = Script::preparing(|_, claim| async move {
        if claim.id.name == "hangs" {
            std::future::pending::<()>().await;
        }
        Ok(devices(&claim))
    });
    let running = start(driver, Claims::allocated(&["hangs", "good"]));
    let request = prepare_request(&["hangs", "good"], Duration::from_secs(2));
    let answers = running
        .dra()
        .await
        .node_prepare_resources(request)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(answers.claims["uid-good"].error, "");
    assert!(
        answers.claims["uid-hangs"]
            .error
            .contains("longer than kubelet waits"),
        "{answers:?}"
    );
}

#[tokio::test]
async fn a_panic_in_the_driver_is_that_claims_error_only() {
    let driver = Script::preparing(|call, claim| async move {
        match claim.id.name.as_str() {
            "panics" => panic!("on purpose"),
            "blocks" => call.run_blocking(|| panic!("on purpose, elsewhere")).await,
            _ => Ok(devices(&claim)),
        }
    });
    let running = start(driver, Claims::allocated(&["panics", "blocks", "good"]));
    let mut client = running.dra().await;
    let request = prepare_request(&["panics", "blocks", "good"], LONG);
    let answers = client
        .node_prepare_resources(request)
        .await
        .unwrap()
        .into_inner()
        .claims;
    assert_eq!(answers["uid-good"].error, "");
    assert!(
        answers["uid-panics"].error.contains("failed internally"),
        "{answers:?}"
    );
    assert!(
        answers["uid-blocks"].error.contains("failed internally"),
        "{answers:?}"
    );
}
