//! The CRD on the server: ours, the Go driver's, or none.

use std::time::Duration;

use anyhow::{Result, bail};
use cluster_tests::within;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};

use super::domains::resource;
use super::kubectl;

/// Our CRD, in the chart.
pub(crate) const OUR_CRD: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../deployments/helm/imex-dra/crd/resource.nvidia.com_computedomains.yaml"
);

/// The Go driver's CRD: without conditions and observedGeneration in the status.
pub(crate) const GO_CRD: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../controller/api/fixtures/computedomains-go.yaml"
);

const NAME: &str = "computedomains.resource.nvidia.com";

/// Installs the CRD in this file, and waits until the server serves domains.
pub(crate) async fn apply_crd(client: &Client, file: &str) -> Result<()> {
    // Not a plain apply: fields of the previous CRD must be removed.
    if kubectl(&["replace", "-f", file]).is_err() {
        kubectl(&["create", "-f", file])?;
    }
    let served: Api<DynamicObject> = Api::all_with(client.clone(), &resource());
    let limit = Duration::from_secs(30);
    within(limit, "ComputeDomains are served", async || {
        served.list(&ListParams::default().limit(1)).await?;
        Ok(())
    })
    .await
    .map(drop)
}

/// Deletes the CRD and waits until it is deleted.
pub(crate) async fn delete_crd() -> Result<()> {
    kubectl(&["delete", "crd", NAME, "--wait=false"])?;
    let limit = Duration::from_secs(30);
    within(limit, "the CRD is deleted", async || {
        let found = kubectl(&["get", "crd", "--ignore-not-found", "-o", "name", NAME])?;
        if !found.is_empty() {
            bail!("{found} exists");
        }
        Ok(())
    })
    .await
    .map(drop)
}
