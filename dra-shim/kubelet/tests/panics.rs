//! Panics in a driver author's code: each fails at most its own claim.

use std::time::Duration;

use dra_kubelet::{
    CallOutcome, Claim, ClaimError, ClaimRef, ClaimSource, Context, Driver, GetClaimError, Method,
    Observer, Plugin, PreparedDevice, Registration,
};

use crate::support::node::{Node, claim_ref};
use crate::support::notes::Notes;
use crate::support::{Claims, DRIVER, Script, devices, soon};

/// A driver that panics for some names: before it returns a future, or in the drop of one.
struct PanickingDriver;

#[cfg(test)]
struct Bomb;

#[cfg(test)]
impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(std::thread::panicking(), "on purpose, in a drop");
    }
}

#[cfg(test)]
impl Driver for PanickingDriver {
    fn prepare(
        &self,
        _: &Context,
        claim: &Claim,
    ) -> impl Future<Output = Result<Vec<PreparedDevice>, ClaimError>> + Send {
        assert_ne!(claim.id.name, "early", "on purpose");
        let bomb = (claim.id.name == "late").then(|| Bomb);
        let devices = devices(claim);
        async move {
            drop(bomb);
            Ok(devices)
        }
    }

    fn unprepare(
        &self,
        _: &Context,
        claim: &ClaimRef,
    ) -> impl Future<Output = Result<(), ClaimError>> + Send {
        assert_ne!(claim.name, "early", "on purpose");
        async { Ok(()) }
    }
}

struct RudeSource(Claims);

#[cfg(test)]
impl ClaimSource for RudeSource {
    async fn get(&self, namespace: &str, name: &str) -> Result<String, GetClaimError> {
        assert_ne!(name, "unreadable", "on purpose");
        self.0.get(namespace, name).await
    }
}

#[tokio::test]
async fn each_panic_is_its_claims_error_and_is_observed() {
    let node = Node::new();
    let notes = Notes::default();
    let names = ["early", "late", "unreadable", "good"];
    let _plugin = Plugin::builder(DRIVER, "n1")
        .kubelet_root(node.root())
        .observer(notes.clone())
        .start(PanickingDriver, RudeSource(Claims::allocated(&names)))
        .unwrap();
    soon("the registration", node.kubelet.wait_registered(DRIVER)).await;
    let claims = names.map(claim_ref);
    let answers = soon("the answers", node.kubelet.prepare(DRIVER, &claims)).await;
    let answers = answers.unwrap();
    for name in ["early", "late", "unreadable"] {
        let error = answers[&format!("uid-{name}")].as_ref().unwrap_err();
        assert!(error.contains("had an internal error"), "{name}: {error}");
    }
    assert!(answers["uid-good"].is_ok(), "{answers:?}");
    let unprepared = soon("the answer", node.kubelet.unprepare(DRIVER, &claims[..1])).await;
    let error = unprepared.unwrap()["uid-early"].clone().unwrap_err();
    assert!(error.contains("had an internal error"), "{error}");
    for line in [
        "attempt prepare early: driver-panicked",
        "prepare early: driver-panicked",
        "prepare late: driver-panicked",
        "read unreadable: claim-source-panicked",
        "prepare unreadable: claim-source-panicked",
        "prepare good: ok",
        "unprepare early: driver-panicked",
    ] {
        assert!(notes.has(line), "{line} is not in {:?}", notes.taken());
    }
}

/// An observer that panics at every event.
struct PanickingObserver;

#[cfg(test)]
impl Observer for PanickingObserver {
    fn call_started(&self, _: Method) {
        panic!("on purpose");
    }

    fn call_finished(&self, _: Method, _: CallOutcome, _: Duration) {
        panic!("on purpose");
    }

    fn claim_read(&self, _: &ClaimRef, _: Result<(), &ClaimError>, _: Duration) {
        panic!("on purpose");
    }

    fn attempt_started(&self, _: Method, _: &ClaimRef) {
        panic!("on purpose");
    }

    fn attempt_finished(&self, _: Method, _: &ClaimRef, _: Result<(), &ClaimError>, _: Duration) {
        panic!("on purpose");
    }

    fn claim_finished(&self, _: Method, _: &ClaimRef, _: Result<(), &ClaimError>, _: Duration) {
        panic!("on purpose");
    }

    fn registration_changed(&self, _: &Registration) {
        panic!("on purpose");
    }

    fn health_stream_changed(&self, _: bool) {
        panic!("on purpose");
    }
}

#[tokio::test]
async fn a_panicking_observer_fails_no_claim() {
    let node = Node::new();
    let claims = Claims::allocated(&["a"]);
    let plugin = node.start_with(DRIVER, Script::instant(), claims, |builder| {
        builder.observer(PanickingObserver)
    });
    let mut state = plugin.registration();
    let registered = |state: &Registration| state.is_registered();
    soon("Notify", state.wait_for(registered)).await.unwrap();
    soon("the registration", node.kubelet.wait_registered(DRIVER)).await;
    let claims = [claim_ref("a")];
    let prepared = soon("the answer", node.kubelet.prepare(DRIVER, &claims)).await;
    assert!(prepared.unwrap()["uid-a"].is_ok());
    let unprepared = soon("the answer", node.kubelet.unprepare(DRIVER, &claims)).await;
    assert!(unprepared.unwrap()["uid-a"].is_ok());
    soon("the shutdown", plugin.shutdown()).await;
}
