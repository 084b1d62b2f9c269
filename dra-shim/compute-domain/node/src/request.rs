//! The channel request of a claim: the pure first part of Prepare, without look-ups
//! or writes.

use compute_domain_api::names::DRIVER_NAME;
use compute_domain_api::{AllocationMode, ComputeDomainChannelConfig, DomainUid, OpaqueConfig};
use dra_checkpoint::KubeletDevice;
use dra_claim::{ClaimStatus, DeviceConfig, DeviceResult};
use imex_cdi::ChannelId;

use crate::device_group::DeviceGroup;
use crate::error::{ChannelSource, PrepareError};

/// A claim's request for a channel of one domain, through its device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelRequest {
    /// The UID of the domain that the channel is for.
    pub domain: DomainUid,
    /// The number in the device's name, chosen by the scheduler. The claim may open a
    /// different channel; see [`HolderPolicy`](crate::HolderPolicy).
    pub device_channel: ChannelId,
    /// The device's name in the slice.
    pub device: String,
    /// The device's pool.
    pub pool: String,
    /// The name of the claim's request, without a subrequest, as containers use it.
    pub request: String,
    /// The claim's share of the device, if claims share it.
    pub share_id: Option<String>,
    /// The claim's label `resource.nvidia.com/computeDomain`
    /// ([`DOMAIN_LABEL`](compute_domain_api::names::DOMAIN_LABEL)), if any: the UID of a domain.
    /// Only claims with this label get the domain's channel, because the controller finds the
    /// channel's users by label. Not part of the status: see [`with_label`](Self::with_label).
    pub label: Option<String>,
}

impl ChannelRequest {
    /// Reads the allocation of a claim: the one result of the driver
    /// `compute-domain.nvidia.com`, and the opaque config of that driver that applies
    /// to it, a `ComputeDomainChannelConfig` (`resource.nvidia.com/v1beta1`, with
    /// `domainID` and `allocationMode`). Without a [label](Self::label).
    ///
    /// # Errors
    /// All permanent: a claim's allocation does not change.
    pub fn from_status(status: &ClaimStatus) -> Result<Self, PrepareError> {
        let configs = own_configs(status)?;
        let result = own_result(status)?;
        let config = config_for(result, &configs)?;
        let device_channel = ChannelId::from_device_name(result.device()).map_err(|source| {
            PrepareError::NotAChannel {
                device: result.device().to_owned(),
                source,
            }
        })?;
        require_single(&config.allocation_mode)?;
        require_uid(&config.domain_uid)?;
        Ok(Self {
            domain: config.domain_uid.clone(),
            device_channel,
            device: result.device().to_owned(),
            pool: result.pool().to_owned(),
            request: result.base_request().to_owned(),
            share_id: result.share_id().map(str::to_owned),
            label: None,
        })
    }

    /// Sets the claim's [label](Self::label). Without it, a claim that needs the label is refused with
    /// [`PrepareError::NotLabelled`].
    #[must_use]
    pub fn with_label(self, label: Option<&str>) -> Self {
        Self {
            label: label.map(str::to_owned),
            ..self
        }
    }

    /// The devices for the record of the prepared claim: it opens `channel`, and `cdi_ids` are the
    /// devices in its CDI spec.
    pub(crate) fn device_group(&self, channel: ChannelId, cdi_ids: Vec<String>) -> DeviceGroup {
        let device = KubeletDevice {
            requests: Some(vec![self.request.clone()]),
            pool_name: self.pool.clone(),
            device_name: self.device.clone(),
            cdi_device_ids: Some(cdi_ids),
            share_id: self.share_id.clone(),
            metadata: None,
        };
        DeviceGroup::with_channel(channel.get(), device, self.domain.as_str())
    }
}

/// This driver's decoded configs in rising precedence. A typo is an error even in
/// a config that another one overrides.
// req: KUBELET-54, NODE-1
fn own_configs(status: &ClaimStatus) -> Result<Vec<(&DeviceConfig, OpaqueConfig)>, PrepareError> {
    let configs = status.configs_of(DRIVER_NAME);
    let decoded = configs.map(|config| {
        let decoded = OpaqueConfig::decode_strict(config.parameters());
        let decoded = decoded.map_err(|source| PrepareError::Config { source })?;
        Ok((config, decoded))
    });
    decoded.collect()
}

/// The only allocation result of this driver.
// req: NODE-2, NODE-5
fn own_result(status: &ClaimStatus) -> Result<&DeviceResult, PrepareError> {
    let ours: Vec<_> = status.results_of(DRIVER_NAME).collect();
    let &[result] = ours.as_slice() else {
        return Err(PrepareError::NotOneResult {
            found: ours.len(),
            channel_source: ours
                .first()
                .map_or(ChannelSource::Domain, |it| channel_source(it)),
        });
    };
    if result.admin_access() {
        return Err(PrepareError::AdminAccess);
    }
    Ok(result)
}

/// The effective config of `result`: the last one that applies to its request.
// req: NODE-4
fn config_for<'a>(
    result: &DeviceResult,
    configs: &'a [(&DeviceConfig, OpaqueConfig)],
) -> Result<&'a ComputeDomainChannelConfig, PrepareError> {
    let mut rising = configs.iter();
    match rising.rfind(|(config, _)| config.applies_to(result)) {
        Some((_, OpaqueConfig::Channel(channel))) => Ok(channel),
        Some((_, OpaqueConfig::Daemon(_))) => Err(PrepareError::DaemonClaim),
        None => Err(PrepareError::NoConfig {
            request: result.request().to_owned(),
            channel_source: channel_source(result),
        }),
    }
}

// req: NODE-3
fn require_single(mode: &AllocationMode) -> Result<(), PrepareError> {
    match mode {
        AllocationMode::Unset | AllocationMode::Single => Ok(()),
        AllocationMode::All | AllocationMode::Unknown(_) => Err(PrepareError::AllocationMode {
            mode: mode.as_str().to_owned(),
        }),
    }
}

/// Fails if no Kubernetes object can have this UID: theirs are random lower-case UUIDs.
/// `DomainUid` only ensures that it is safe as a label and as a directory name.
// req: NODE-15
fn require_uid(domain: &DomainUid) -> Result<(), PrepareError> {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let parts = domain.as_str().split('-');
    let is_uuid = parts.clone().map(str::len).eq([8, 4, 4, 4, 12])
        && parts.flat_map(str::as_bytes).all(is_digit);
    if is_uuid {
        return Ok(());
    }
    Err(PrepareError::NotAUid {
        domain: domain.clone(),
    })
}

fn channel_source(result: &DeviceResult) -> ChannelSource {
    let channel = ChannelId::from_device_name(result.device());
    channel.map_or(ChannelSource::Domain, ChannelSource::through)
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
