//! The devices that a claim requests: the pure first part of Prepare, without look-ups or writes.

use dra_checkpoint::KubeletDevice;
use dra_claim::ClaimStatus;
use gpu_api::names::DeviceType;
use gpu_api::{FeatureGates, Sharing, TimeSlice, configured_devices};

use crate::error::PrepareError;

/// A claim's request for GPUs and MIG devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuRequest {
    /// In the order of the allocation's results. A device may be there more than once.
    pub devices: Vec<RequestedDevice>,
}

/// One allocated device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedDevice {
    /// The device's name in the slice.
    pub name: String,
    /// Its type, by its name.
    pub device_type: DeviceType,
    /// The device's pool.
    pub pool: String,
    /// The name of the claim's request, without a subrequest.
    pub request: String,
    /// The claim's share of the device, if claims share it.
    pub share_id: Option<String>,
    /// Whether the claim gets a device that another one may have.
    pub admin_access: bool,
    /// The settings that the claim's configs ask for; `None` leaves the device as it is.
    pub sharing: Option<Sharing>,
}

impl GpuRequest {
    /// Reads the allocation of a claim: the results of the driver `gpu.nvidia.com`, and the opaque configs of that
    /// driver. `node` is the name of this node, which is the name of its pool.
    ///
    /// # Errors
    /// All permanent: a claim's allocation does not change.
    // req: GPU-31
    pub fn from_status(
        status: &ClaimStatus,
        gates: &FeatureGates,
        node: &str,
    ) -> Result<Self, PrepareError> {
        let configured = configured_devices(status, gates)?;
        if configured.is_empty() {
            return Err(PrepareError::NoDevice);
        }
        let devices = configured.into_iter().map(|device| {
            let result = device.result;
            if result.pool() != node {
                return Err(PrepareError::ForeignDevice {
                    device: result.device().to_owned(),
                    pool: result.pool().to_owned(),
                });
            }
            Ok(RequestedDevice {
                name: result.device().to_owned(),
                device_type: device.device_type,
                pool: result.pool().to_owned(),
                request: result.base_request().to_owned(),
                share_id: result.share_id().map(str::to_owned),
                admin_access: result.admin_access(),
                sharing: device.sharing,
            })
        });
        Ok(Self {
            devices: devices.collect::<Result<_, _>>()?,
        })
    }
}

// === impl RequestedDevice ===

impl RequestedDevice {
    /// The time slice that the claim changes. The driver's default is no change.
    pub(crate) fn time_slice(&self) -> Option<TimeSlice> {
        match self.sharing {
            Some(Sharing::TimeSlicing(time_slice)) if time_slice != TimeSlice::Default => {
                Some(time_slice)
            }
            _ => None,
        }
    }

    /// The device in the answer to kubelet.
    pub(crate) fn for_kubelet(&self, cdi_id: String) -> KubeletDevice {
        KubeletDevice {
            requests: Some(vec![self.request.clone()]),
            pool_name: self.pool.clone(),
            device_name: self.name.clone(),
            cdi_device_ids: Some(vec![cdi_id]),
            share_id: self.share_id.clone(),
            metadata: None,
        }
    }
}
