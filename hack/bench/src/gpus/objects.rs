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

/// First claims that stay prepared, then that of the measured calls.
pub(super) struct Claims {
    /// Each of another GPU.
    pub(super) whole: Vec<proto::Claim>,
    /// A share of a GPU, another GPU, and a further share of the first one.
    pub(super) shares: Vec<proto::Claim>,
}

// === impl Claims ===

impl Claims {
    pub(super) async fn create(client: &Client, node: &str) -> anyhow::Result<Self> {
        let share = |number: usize| match number {
            1 => (1, None),
            number => (0, Some(format!("00000000-0000-4000-8000-{number:012}"))),
        };
        Ok(Self {
            whole: create(client, node, "worker", MANY, |gpu| (gpu, None)).await?,
            shares: create(client, node, "sharer", 2, share).await?,
        })
    }
}

/// Creates claims with the numbers to `last`. `device` is the GPU and the share of each.
async fn create(
    client: &Client,
    node: &str,
    name: &str,
    last: usize,
    device: impl Fn(usize) -> (usize, Option<String>),
) -> anyhow::Result<Vec<proto::Claim>> {
    let mut claims = Vec::new();
    for number in 0..=last {
        let (gpu, share) = device(number);
        let claim = AllocatedClaim {
            driver: DRIVER,
            node,
            namespace: HOME,
            metadata: json!({"name": format!("{name}-{number:04}-gpu-abcde")}),
            spec: json!({"devices": {
                "requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}],
            }}),
            request: "gpu",
            device: format!("gpu-{gpu}"),
            share,
            config: json!([]),
        };
        claims.push(claim.create(client).await?);
    }
    Ok(claims)
}
