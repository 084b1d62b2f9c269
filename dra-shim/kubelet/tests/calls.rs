//! Prepare and Unprepare over real sockets: every claim gets an answer, in time.
#![allow(missing_docs, reason = "a test")]

#[cfg(test)]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use dra_kubelet::ClaimError;
use support::proto::v1beta1;
use support::{Claims, DRIVER, Script, devices, prepare_request, soon, start, unprepare_request};
use tokio::sync::{Semaphore, mpsc};

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

#[tokio::test]
async fn a_claim_that_cannot_be_read_at_first_is_prepared_inside_the_call() {
    struct Late(AtomicUsize, Claims);
    impl dra_kubelet::ClaimSource for Late {
        async fn get(
            &self,
            namespace: &str,
            name: &str,
        ) -> Result<String, dra_kubelet::GetClaimError> {
            if self.0.fetch_add(1, Ordering::SeqCst) == 0 {
                let refused = kube::core::Status::failure("etcd is away", "InternalError");
                let refused = kube::Error::Api(refused.with_code(500).boxed());
                return Err(dra_kubelet::GetClaimError::Api(Box::new(refused)));
            }
            self.1.get(namespace, name).await
        }
    }
    let root = tempfile::tempdir().unwrap();
    let source = Late(AtomicUsize::new(0), Claims::allocated(&["a"]));
    let builder = dra_kubelet::Plugin::builder(DRIVER, "n1").kubelet_root(root.path());
    let plugin = builder.start(Script::instant(), source).unwrap();
    let running = support::Running { plugin, root };
    let answer = running
        .dra()
        .await
        .node_prepare_resources(prepare_request(&["a"], LONG))
        .await;
    assert_eq!(answer.unwrap().into_inner().claims["uid-a"].error, "");
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

/// A driver whose Prepare says that it has begun and waits to be let go on.
#[cfg(test)]
fn stepwise() -> (
    Script,
    mpsc::UnboundedReceiver<&'static str>,
    Arc<Semaphore>,
) {
    let (log, events) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let open = Arc::clone(&gate);
    let driver = Script::preparing(move |_, claim| {
        let (log, open) = (log.clone(), Arc::clone(&open));
        async move {
            log.send("begun").unwrap();
            open.acquire().await.unwrap().forget();
            log.send("ended").unwrap();
            Ok(devices(&claim))
        }
    });
    (driver, events, gate)
}

#[tokio::test]
async fn work_goes_on_when_its_call_is_dropped() {
    let (driver, mut events, gate) = stepwise();
    let running = start(driver, Claims::allocated(&["a"]));
    let mut client = running.dra().await;
    let call = tokio::spawn(async move {
        client
            .node_prepare_resources(prepare_request(&["a"], LONG))
            .await
    });
    assert_eq!(soon("the first step", events.recv()).await, Some("begun"));
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    gate.add_permits(1);
    assert_eq!(
        soon("the end of the step", events.recv()).await,
        Some("ended")
    );
}

#[tokio::test]
async fn a_second_call_joins_the_work_instead_of_beginning_its_own() {
    let (driver, mut events, gate) = stepwise();
    let running = start(driver, Claims::allocated(&["a"]));
    let mut client = running.dra().await;
    let mut first = client.clone();
    let first = tokio::spawn(async move {
        first
            .node_prepare_resources(prepare_request(&["a"], LONG))
            .await
    });
    assert_eq!(soon("the first step", events.recv()).await, Some("begun"));

    // Shut out, the second call is answered before its own deadline ...
    let request = prepare_request(&["a"], Duration::from_secs(1));
    let second = client
        .node_prepare_resources(request)
        .await
        .unwrap()
        .into_inner();
    assert!(
        second.claims["uid-a"].error.contains("it goes on"),
        "{second:?}"
    );
    gate.add_permits(1);
    let first = first.await.unwrap().unwrap().into_inner();
    assert_eq!(first.claims["uid-a"].error, "");
    // ... and has begun nothing.
    assert_eq!(
        soon("the end of the step", events.recv()).await,
        Some("ended")
    );
    assert!(events.try_recv().is_err());
}

#[tokio::test]
async fn an_unprepare_cancels_the_prepare_and_waits_for_its_step() {
    let (log, mut events) = mpsc::unbounded_channel();
    let unprepare_log = log.clone();
    let mut driver = Script::preparing(move |call, _| {
        let log = log.clone();
        async move {
            log.send("prepare begun").unwrap();
            call.cancelled().cancelled().await;
            // An unprepare that did not wait would get in between.
            tokio::time::sleep(Duration::from_millis(50)).await;
            log.send("prepare ended").unwrap();
            Err(ClaimError::retry("interrupted"))
        }
    });
    driver.unprepare = Box::new(move |_, _| {
        unprepare_log.send("unprepared").unwrap();
        Box::pin(async { Ok(()) })
    });
    let running = start(driver, Claims::allocated(&["a"]));
    let mut client = running.dra().await;
    let mut preparing = client.clone();
    let preparing = tokio::spawn(async move {
        preparing
            .node_prepare_resources(prepare_request(&["a"], LONG))
            .await
    });
    assert_eq!(
        soon("the first step", events.recv()).await,
        Some("prepare begun")
    );

    let unprepare = client.node_unprepare_resources(unprepare_request(&["a"], LONG));
    let answer = soon("the unprepare", unprepare).await.unwrap().into_inner();
    assert_eq!(answer.claims["uid-a"].error, "");
    assert_eq!(events.recv().await, Some("prepare ended"));
    assert_eq!(events.recv().await, Some("unprepared"));
    let prepared = soon("the prepare's answer", preparing)
        .await
        .unwrap()
        .unwrap()
        .into_inner();
    assert!(!prepared.claims["uid-a"].error.is_empty());
    // No further attempt of the cancelled Prepare: the driver may be gone by now.
    assert!(events.try_recv().is_err());
}

#[tokio::test]
async fn a_prepare_after_an_unprepare_is_a_new_one() {
    let running = start(Script::instant(), Claims::allocated(&["a"]));
    let mut client = running.dra().await;
    for _ in 0..2 {
        let answer = client
            .node_prepare_resources(prepare_request(&["a"], LONG))
            .await
            .unwrap();
        assert_eq!(answer.into_inner().claims["uid-a"].error, "");
        let answer = client
            .node_unprepare_resources(unprepare_request(&["a"], LONG))
            .await;
        assert_eq!(answer.unwrap().into_inner().claims["uid-a"].error, "");
    }
}
