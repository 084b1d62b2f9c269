//! Pods and claims. The test itself is their scheduler: it writes the claims'
//! allocation and reservation and then binds the pod.

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::{NODE, Node, until};

/// An allocation result, which the test writes in place of the scheduler.
#[derive(Clone)]
pub(crate) struct AllocationResult {
    pub(crate) driver: String,
    pub(crate) device: String,
    pub(crate) share: Option<String>,
}

/// The allocation of a device without share id.
pub(crate) fn allocated(driver: &str, device: &str) -> AllocationResult {
    AllocationResult {
        driver: driver.to_owned(),
        device: device.to_owned(),
        share: None,
    }
}

impl AllocationResult {
    fn to_json(&self) -> Value {
        let mut result =
            json!({"request": "r", "driver": self.driver, "pool": NODE, "device": self.device});
        if let (Some(share), Some(result)) = (&self.share, result.as_object_mut()) {
            result.insert("shareID".to_owned(), json!(share));
        }
        result
    }
}

impl Node {
    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) fn claims(&self) -> Api<ResourceClaim> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Starts a pod that sleeps, with a claim of the same name for device `d0`.
    pub(crate) async fn start_pod(&self, name: &str) -> Result<()> {
        self.start_pod_with(name, &[(name, vec![allocated(&self.driver, "d0")])])
            .await
    }

    /// Starts a pod that sleeps, with these claims and their allocations.
    pub(crate) async fn start_pod_with(
        &self,
        name: &str,
        claims: &[(&str, Vec<AllocationResult>)],
    ) -> Result<()> {
        self.start_pod_running(name, cluster_tests::fixtures::SLEEP, claims)
            .await
    }

    pub(crate) async fn start_pod_running(
        &self,
        name: &str,
        command: &str,
        claims: &[(&str, Vec<AllocationResult>)],
    ) -> Result<()> {
        for (claim, _) in claims {
            self.create_claim(claim).await?;
        }
        let names: Vec<_> = claims.iter().map(|(claim, _)| *claim).collect();
        let uid = self.create_pod(name, command, &names).await?;
        for (claim, allocated) in claims {
            let results: Vec<_> = allocated.iter().map(AllocationResult::to_json).collect();
            let status = json!({"status": {
                "allocation": {"devices": {"results": results}},
                "reservedFor": [{"resource": "pods", "name": name, "uid": uid}],
            }});
            self.patch_claim_status(claim, &status).await?;
        }
        self.bind(name).await
    }

    pub(crate) async fn create_claim(&self, name: &str) -> Result<()> {
        let claim = json!({
            "metadata": {"name": name},
            "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "none"}}]}},
        });
        let claim = serde_json::from_value(claim)?;
        self.claims().create(&PostParams::default(), &claim).await?;
        Ok(())
    }

    pub(crate) async fn patch_claim_status(&self, name: &str, status: &Value) -> Result<()> {
        self.claims()
            .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
            .await
            .with_context(|| format!("the status of claim {name}"))?;
        Ok(())
    }

    /// Creates a pod that no scheduler binds to a node.
    async fn create_pod(&self, name: &str, command: &str, claims: &[&str]) -> Result<String> {
        let refer = |claim: &&str| json!({"name": claim, "resourceClaimName": claim});
        let container_claims: Vec<_> = claims.iter().map(|claim| json!({"name": claim})).collect();
        let pod = serde_json::from_value::<Pod>(json!({
            "metadata": {"name": name},
            "spec": {
                "schedulerName": "the-test",
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "hostNetwork": true,
                "automountServiceAccountToken": false,
                "tolerations": [{"operator": "Exists"}],
                "resourceClaims": claims.iter().map(refer).collect::<Vec<_>>(),
                "containers": [{
                    "name": "main",
                    "image": "localhost/busybox:1",
                    "imagePullPolicy": "Never",
                    "command": ["sh", "-c", command],
                    "resources": {"claims": container_claims},
                }],
            },
        }))?;
        // The namespace's service account is created shortly after the namespace.
        let created = until("the pod is created", async || {
            Ok(self.pods().create(&PostParams::default(), &pod).await?)
        })
        .await;
        created.metadata.uid.context("a pod without uid")
    }

    async fn bind(&self, name: &str) -> Result<()> {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NODE},
        });
        let path = format!("/api/v1/namespaces/{}/pods/{name}/binding", self.namespace);
        let request = http::Request::post(path)
            .header("Content-Type", "application/json")
            .body(binding.to_string().into_bytes())?;
        self.client.request::<Value>(request).await?;
        Ok(())
    }

    pub(crate) async fn phase(&self, pod: &str) -> Result<String> {
        let pod = self.pods().get(pod).await?;
        pod.status
            .and_then(|status| status.phase)
            .context("no phase")
    }

    pub(crate) async fn until_phase(&self, pod: &str, wanted: &str) {
        until(&format!("pod {pod} is {wanted}"), async || {
            let phase = self.phase(pod).await?;
            ensure!(phase == wanted, "it is {phase}");
            Ok(())
        })
        .await;
    }

    pub(crate) async fn until_running(&self, pod: &str) {
        self.until_phase(pod, "Running").await;
    }

    /// The UID of a claim.
    pub(crate) async fn claim_uid(&self, claim: &str) -> Result<String> {
        let claim = self.claims().get(claim).await?;
        claim.metadata.uid.context("a claim without uid")
    }

    /// Deletes the pod; kubelet removes the object once its claims are unprepared.
    pub(crate) async fn delete(&self, pod: &str) -> Result<()> {
        self.pods().delete(pod, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Deletes the object at once; kubelet cleans up later.
    pub(crate) async fn delete_by_force(&self, pod: &str) -> Result<()> {
        let now = DeleteParams::default().grace_period(0);
        self.pods().delete(pod, &now).await?;
        Ok(())
    }

    pub(crate) async fn until_gone(&self, pod: &str) {
        until(&format!("pod {pod} is deleted"), async || {
            match self.pods().get_opt(pod).await? {
                None => Ok(()),
                Some(_) => bail!("it still exists"),
            }
        })
        .await;
    }

    pub(crate) async fn delete_and_wait(&self, pod: &str) -> Result<()> {
        self.delete(pod).await?;
        self.until_gone(pod).await;
        Ok(())
    }

    /// The messages of the pod's warnings.
    pub(crate) async fn warnings(&self, pod: &str) -> Result<Vec<String>> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let fields = format!("involvedObject.name={pod},type=Warning");
        let list = events.list(&ListParams::default().fields(&fields)).await?;
        Ok(list
            .items
            .into_iter()
            .filter_map(|event| event.message)
            .collect())
    }

    /// Waits for a warning of the pod that contains `expected`, and returns it.
    pub(crate) async fn until_warned(&self, pod: &str, expected: &str) -> String {
        until(
            &format!("pod {pod} has a warning with {expected:?}"),
            async || {
                let warnings = self.warnings(pod).await?;
                let found = warnings
                    .iter()
                    .find(|text| text.contains(expected))
                    .cloned();
                found.with_context(|| format!("there are {warnings:?}"))
            },
        )
        .await
    }

    /// The phase and the warnings of each pod of the scenario.
    pub(super) async fn describe_pods(&self) -> Vec<String> {
        let Ok(pods) = self.pods().list(&ListParams::default()).await else {
            return vec!["the API server does not answer".to_owned()];
        };
        let mut lines = Vec::new();
        for pod in pods {
            let name = pod.metadata.name.unwrap_or_default();
            let warnings = self.warnings(&name).await.unwrap_or_default();
            let phase = pod.status.and_then(|status| status.phase);
            lines.push(format!("pod {name}: {phase:?} {warnings:?}"));
        }
        lines
    }
}
