//! Between the wire's types, in two versions, and the domain's.

use crate::claim::ClaimRef;
use crate::driver::Device;
use crate::proto::{v1, v1beta1};
use crate::work::Outcome;

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

impl From<Device> for v1::Device {
    fn from(device: Device) -> Self {
        Self {
            request_names: device.requests,
            pool_name: device.pool,
            device_name: device.device,
            cdi_device_ids: device.cdi_ids,
            share_id: device.share_id,
        }
    }
}

impl From<Device> for v1beta1::Device {
    /// The version has no place for the share id.
    fn from(device: Device) -> Self {
        Self {
            request_names: device.requests,
            pool_name: device.pool,
            device_name: device.device,
            cdi_device_ids: device.cdi_ids,
        }
    }
}
