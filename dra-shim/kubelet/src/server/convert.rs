//! Conversions between the library's types and those of both versions of the DRA API.

use std::collections::BTreeSet;

use crate::driver::{Outcome, PreparedDevice};
use crate::proto::{v1, v1beta1};
use dra_claim::{ClaimRef, base_request};

macro_rules! conversions {
    ($version:ident) => {
        impl From<$version::Claim> for ClaimRef {
            fn from(claim: $version::Claim) -> Self {
                Self {
                    namespace: claim.namespace,
                    name: claim.name,
                    uid: claim.uid,
                }
            }
        }

        impl From<Outcome> for $version::NodePrepareResourceResponse {
            fn from(outcome: Outcome) -> Self {
                match outcome {
                    Ok(devices) => Self {
                        devices: devices.into_iter().map(Into::into).collect(),
                        error: String::new(),
                    },
                    Err(error) => Self {
                        devices: Vec::new(),
                        error: error.message().to_owned(),
                    },
                }
            }
        }

        impl From<Outcome> for $version::NodeUnprepareResourceResponse {
            fn from(outcome: Outcome) -> Self {
                let error = outcome.err().map(|error| error.message().to_owned());
                Self {
                    error: error.unwrap_or_default(),
                }
            }
        }
    };
}

conversions!(v1);
conversions!(v1beta1);

/// Returns the base names of the driver's requests, without duplicates. Containers refer to a
/// request, never to the allocated subrequest. If kubelet cannot match a name, the container
/// silently gets no device.
// req: KUBELET-21
fn base_names(requests: &[String]) -> Vec<String> {
    let mut known = BTreeSet::new();
    let names = requests.iter().map(|request| base_request(request));
    names
        .filter(|name| known.insert(*name))
        .map(str::to_owned)
        .collect()
}

// req: KUBELET-22
impl From<PreparedDevice> for v1::Device {
    fn from(device: PreparedDevice) -> Self {
        Self {
            request_names: base_names(&device.requests),
            pool_name: device.pool,
            device_name: device.device,
            cdi_device_ids: device.cdi_ids,
            share_id: device.share_id,
        }
    }
}

impl From<PreparedDevice> for v1beta1::Device {
    /// This version has no field for the share id.
    fn from(device: PreparedDevice) -> Self {
        Self {
            request_names: base_names(&device.requests),
            pool_name: device.pool,
            device_name: device.device,
            cdi_device_ids: device.cdi_ids,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_device() -> PreparedDevice {
        PreparedDevice {
            requests: vec!["gpu/fast".into(), "gpu".into(), "net".into()],
            share_id: Some("s-1".into()),
            ..PreparedDevice::default()
        }
    }

    // req: KUBELET-21
    #[test]
    fn kubelet_gets_base_names_of_requests_without_duplicates() {
        assert_eq!(v1::Device::from(mk_device()).request_names, ["gpu", "net"]);
        assert_eq!(
            v1beta1::Device::from(mk_device()).request_names,
            ["gpu", "net"]
        );
    }

    // req: KUBELET-22
    #[test]
    fn v1_has_the_share_id() {
        assert_eq!(
            v1::Device::from(mk_device()).share_id.as_deref(),
            Some("s-1")
        );
    }
}
