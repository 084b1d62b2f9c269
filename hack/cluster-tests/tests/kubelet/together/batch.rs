//! One call with claims that have different outcomes.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Result, ensure};
use dra_kubelet::Method::{Prepare, Unprepare};
use dra_kubelet::{ClaimSource, GetClaimError, KubeClaims, Plugin};
use kube::api::DeleteParams;
use serde_json::json;
use tokio::sync::watch;

use crate::support::{NODE, Node, ScriptedDriver, allocated, run, until};

/// The API server's claims, returned once the gate is open: kubelet has read them
/// before, so that only the driver sees later changes.
struct Gated {
    claims: KubeClaims,
    open: watch::Receiver<bool>,
    asked: Arc<watch::Sender<usize>>,
}

impl ClaimSource for Gated {
    async fn get(&self, namespace: &str, name: &str) -> Result<String, GetClaimError> {
        self.asked.send_modify(|asked| *asked += 1);
        // A dropped gate is open: the test has ended.
        let _ = self.open.clone().wait_for(|open| *open).await;
        self.claims.get(namespace, name).await
    }
}

async fn change_two_claims(on: &Node) -> Result<()> {
    on.claims()
        .delete("replaced", &DeleteParams::default())
        .await?;
    until("the claim is recreated", async || {
        on.create_claim("replaced").await
    })
    .await;
    let nothing = json!({"status": {"allocation": null, "reservedFor": null}});
    on.patch_claim_status("unallocated", &nothing).await
}

#[test]
#[ignore = "needs the node of hack/e2e.sh kubelet"]
fn a_replaced_and_an_unallocated_claim_do_not_prevent_preparing_the_good_one() -> Result<()> {
    run("batch", async |on| {
        let script = ScriptedDriver::default();
        let (gate, open) = watch::channel(false);
        let asked = Arc::new(watch::Sender::new(0));
        let claims = Gated {
            claims: KubeClaims::new(on.client.clone()),
            open,
            asked: Arc::clone(&asked),
        };
        let plugin = Plugin::builder(&*on.driver, NODE)
            .observer(script.clone())
            .start(script.clone(), claims)?;
        plugin
            .registration()
            .wait_for(dra_kubelet::Registration::is_registered)
            .await?;

        let names = ["good", "replaced", "unallocated"];
        let claims = names.map(|name| (name, vec![allocated(&on.driver, "d0")]));
        on.start_pod_with("p", &claims).await?;
        asked.subscribe().wait_for(|asked| *asked >= 3).await?;
        let good = on.claim_uid("good").await?;
        change_two_claims(on).await?;
        gate.send_replace(true);

        until("kubelet's call has ended", async || {
            ensure!(!script.log().calls.is_empty(), "not yet");
            Ok(())
        })
        .await;
        let log = script.log();
        ensure!(
            log.steps == [(Prepare, good)],
            "the steps were {:?}",
            log.steps
        );
        let answers: BTreeMap<_, _> = log
            .answers
            .into_iter()
            .filter(|(method, ..)| *method == Prepare)
            .map(|(_, name, outcome)| {
                (name, outcome.err().unwrap_or_else(|| "prepared".to_owned()))
            })
            .collect();
        ensure!(answers.len() == 3, "{answers:?}");
        ensure!(
            answers.get("good").is_some_and(|it| it == "prepared"),
            "{answers:?}"
        );
        on.until_warned("p", "NodePrepareResources failed for ResourceClaim")
            .await;
        on.delete_and_wait("p").await?;
        ensure!(script.started(Unprepare) == 3, "{:?}", script.log().steps);
        Ok(format!("{answers:?}"))
    })
}
