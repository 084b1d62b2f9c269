//! The claims of kubelet's calls.

use kube::Client;
use serde_json::json;

use crate::accounts::HOME;
use crate::dra_proto as proto;
use crate::plugin::Driver;
use crate::plugin::claims::AllocatedClaim;

pub(super) const DRIVER: Driver = Driver("gpu.nvidia.com");
const CLASS: &str = "gpu.nvidia.com";

/// The numbers of claims that are already prepared.
pub(super) const FEW: usize = 1;
pub(super) const MANY: usize = 64;

/// One claim for each GPU: first those that stay prepared, then that of the measured calls.
pub(super) async fn create_claims(
    client: &Client,
    node: &str,
) -> anyhow::Result<Vec<proto::Claim>> {
    let mut claims = Vec::new();
    for gpu in 0..=MANY {
        let claim = AllocatedClaim {
            driver: DRIVER,
            node,
            namespace: HOME,
            metadata: json!({"name": format!("worker-{gpu:04}-gpu-abcde")}),
            spec: json!({"devices": {
                "requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}],
            }}),
            request: "gpu",
            device: format!("gpu-{gpu}"),
            config: json!([]),
        };
        claims.push(claim.create(client).await?);
    }
    Ok(claims)
}
