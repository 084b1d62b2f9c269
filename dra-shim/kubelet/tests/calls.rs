//! Prepare and Unprepare over real sockets: every claim is answered in time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dra_kubelet::testing::{Answers, Times};
use dra_kubelet::{ClaimError, ClaimSource, GetClaimError};

use crate::support::node::{Node, claim_ref};
use crate::support::{Claims, DRIVER, Script, devices, soon};

/// The answers to one call of kubelet with all these claims.
#[cfg(test)]
async fn prepare(driver: Script, claims: impl ClaimSource, names: &[&str]) -> Answers {
    prepare_within(Times::fast().call, driver, claims, names).await
}

#[cfg(test)]
async fn prepare_within(
    call: Duration,
    driver: Script,
    claims: impl ClaimSource,
    names: &[&str],
) -> Answers {
    let times = Times {
        call,
        ..Times::fast()
    };
    let node = Node::with(times);
    let _plugin = node.registered(driver, claims).await;
    let claims: Vec<_> = names.iter().map(|name| claim_ref(name)).collect();
    // The fake kubelet checks that every claim has an answer.
    let answers = node.kubelet.prepare(DRIVER, &claims);
    soon("the answer", answers).await.unwrap()
}

#[cfg(test)]
fn error<'a>(answers: &'a Answers, name: &str) -> &'a str {
    let answer = &answers[&format!("uid-{name}")];
    answer.as_ref().expect_err("an error")
}

// req: KUBELET-15, KUBELET-16, KUBELET-17
#[tokio::test]
async fn a_replaced_an_unallocated_a_missing_and_a_good_claim_get_four_answers() {
    let claims = Claims::allocated(&["good"]);
    claims.put("replaced", "another-uid", Some(DRIVER));
    claims.put("unallocated", "uid-unallocated", None);
    let names = ["replaced", "unallocated", "missing", "good"];
    let answers = prepare(Script::instant(), claims, &names).await;

    assert!(
        error(&answers, "replaced").contains("created again"),
        "{answers:?}"
    );
    assert!(
        error(&answers, "unallocated").contains("not allocated"),
        "{answers:?}"
    );
    assert!(
        error(&answers, "missing").contains("does not exist"),
        "{answers:?}"
    );
    let device = &answers["uid-good"].as_ref().unwrap()[0];
    assert_eq!(device.requests, ["r"]);
    assert_eq!((device.pool.as_str(), device.device.as_str()), ("n1", "d0"));
    assert_eq!(device.cdi_ids, ["example.com/test=uid-good"]);
    assert_eq!(device.share_id.as_deref(), Some("share-1"));
}

// req: KUBELET-30
#[tokio::test]
async fn an_unprepare_needs_no_claim_object() {
    let node = Node::new();
    let _plugin = node.registered(Script::instant(), Claims::default()).await;
    let answers = node.kubelet.unprepare(DRIVER, &[claim_ref("gone")]).await;
    assert_eq!(answers.unwrap()["uid-gone"], Ok(Vec::new()));
}

// req: KUBELET-24
#[tokio::test]
async fn a_transient_error_is_retried_inside_the_call() {
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
    let answers = prepare(driver, Claims::allocated(&["a"]), &["a"]).await;
    assert!(answers["uid-a"].is_ok(), "{answers:?}");
    assert_eq!(attempts.load(Ordering::SeqCst), 3);
}

/// A source that fails with these errors, last one first, then returns the claims.
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

// req: KUBELET-24
#[tokio::test]
async fn a_claim_is_prepared_inside_the_call_after_failed_reads() {
    let refused = kube::core::Status::failure("etcd is away", "InternalError");
    let refused = kube::Error::Api(refused.with_code(500).boxed());
    let errors = vec![
        GetClaimError::Api(Box::new(refused)),
        GetClaimError::Source("the cache is cold".into()),
    ];
    let claims = Late(Mutex::new(errors), Claims::allocated(&["a"]));
    let answers = prepare(Script::instant(), claims, &["a"]).await;
    assert!(answers["uid-a"].is_ok(), "{answers:?}");
}

#[tokio::test]
async fn the_user_sees_all_causes_of_a_custom_sources_error() {
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
    let answers = prepare_within(Duration::from_secs(2), Script::instant(), Never, &["a"]).await;
    assert_eq!(
        error(&answers, "a"),
        "cannot read the ResourceClaim: the cache is cold: its file is damaged"
    );
}

// req: KUBELET-25
#[tokio::test]
async fn an_error_that_persists_is_answered_before_the_deadline() {
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
    // kubelet's timeout of 3 s: a later answer is lost.
    let time = Duration::from_secs(3);
    let answers = prepare_within(time, driver, Claims::allocated(&["a"]), &["a"]).await;
    let attempts = attempts.load(Ordering::SeqCst);
    assert!(attempts >= 2, "{attempts}");
    let last = format!("still broken, attempt {}", attempts - 1);
    assert_eq!(error(&answers, "a"), last);
}

// req: KUBELET-24
#[tokio::test]
async fn a_permanent_error_is_answered_at_once() {
    let driver = Script::preparing(|_, _| async { Err(ClaimError::permanent("never")) });
    let began = Instant::now();
    let answers = prepare(driver, Claims::allocated(&["a"]), &["a"]).await;
    assert_eq!(error(&answers, "a"), "never");
    assert!(
        began.elapsed() < Times::KUBELET.call / 4,
        "{:?}",
        began.elapsed()
    );
}

// req: KUBELET-16
#[tokio::test]
async fn a_claim_that_hangs_does_not_block_the_answers_of_others() {
    let driver = Script::preparing(|_, claim| async move {
        if claim.id.name == "hangs" {
            std::future::pending::<()>().await;
        }
        Ok(devices(&claim))
    });
    let (names, time) = (["hangs", "good"], Duration::from_secs(2));
    let answers = prepare_within(time, driver, Claims::allocated(&names), &names).await;
    assert!(answers["uid-good"].is_ok(), "{answers:?}");
    let hangs = error(&answers, "hangs");
    assert!(hangs.contains("longer than kubelet waits"), "{answers:?}");
}

// req: KUBELET-16
#[tokio::test]
async fn a_panic_in_the_driver_fails_only_its_claim() {
    let driver = Script::preparing(|context, claim| async move {
        match claim.id.name.as_str() {
            "panics" => panic!("on purpose"),
            "blocks" => {
                context
                    .run_blocking(|| panic!("on purpose, elsewhere"))
                    .await
            }
            _ => Ok(devices(&claim)),
        }
    });
    let names = ["panics", "blocks", "good"];
    let answers = prepare(driver, Claims::allocated(&names), &names).await;
    assert!(answers["uid-good"].is_ok(), "{answers:?}");
    for name in ["panics", "blocks"] {
        assert!(
            error(&answers, name).contains("had an internal error"),
            "{answers:?}"
        );
    }
}
