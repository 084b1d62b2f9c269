//! What a claim asks of this node: the pure first half of Prepare (seed 7.2,
//! steps 1 to 3), before anything is looked up or written.

use compute_domain_api::names::DRIVER_NAME;
use compute_domain_api::{AllocationMode, ComputeDomainChannelConfig, DomainId, OpaqueConfig};
use dra_checkpoint::{ClaimStatus, DeviceConfig, DeviceResult};
use imex_cdi::ChannelId;

use crate::error::PrepareError;

/// One channel for one domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelRequest {
    /// The UID of the domain that the channel is for.
    pub domain: DomainId,
    /// The allocated channel: the scheduler's choice, not a constant.
    pub channel: ChannelId,
    /// The device's name in the slice.
    pub device: String,
    /// The device's pool.
    pub pool: String,
    /// The claim's request, without a subrequest, as containers name it.
    pub request: String,
}

impl ChannelRequest {
    /// Reads the allocation of a claim.
    ///
    /// # Errors
    /// All permanent: a claim's allocation does not change.
    pub fn of(status: &ClaimStatus) -> Result<Self, PrepareError> {
        let configs = our_configs(status)?;
        let result = only_result(status)?;
        let config = config_for(result, &configs)?;
        let channel = ChannelId::from_device_name(result.device()).map_err(|source| {
            PrepareError::NotAChannel {
                device: result.device().to_owned(),
                source,
            }
        })?;
        single(&config.allocation_mode)?;
        Ok(Self {
            domain: config.domain_id.clone(),
            channel,
            device: result.device().to_owned(),
            pool: result.pool().to_owned(),
            request: base(result.request()).to_owned(),
        })
    }
}

/// Our configs in rising precedence, each decoded: a typo in one is an error
/// even where another would win.
fn our_configs(status: &ClaimStatus) -> Result<Vec<(&DeviceConfig, OpaqueConfig)>, PrepareError> {
    let of_source = |wanted: &'static str| {
        status
            .configs()
            .iter()
            .filter(move |config| config.source() == wanted)
    };
    of_source("FromClass")
        .chain(of_source("FromClaim"))
        .filter_map(|config| {
            Some((
                config,
                config
                    .opaque()
                    .filter(|opaque| opaque.driver() == DRIVER_NAME)?,
            ))
        })
        .map(|(config, opaque)| {
            let decoded = OpaqueConfig::decode_strict(opaque.parameters());
            decoded
                .map(|decoded| (config, decoded))
                .map_err(|source| PrepareError::Config { source })
        })
        .collect()
}

fn only_result(status: &ClaimStatus) -> Result<&DeviceResult, PrepareError> {
    let ours: Vec<_> = status
        .results()
        .iter()
        .filter(|result| result.driver() == DRIVER_NAME)
        .collect();
    let &[result] = ours.as_slice() else {
        return Err(PrepareError::NotOneResult { found: ours.len() });
    };
    if result.admin_access() {
        return Err(PrepareError::AdminAccess);
    }
    Ok(result)
}

fn config_for<'a>(
    result: &DeviceResult,
    configs: &'a [(&DeviceConfig, OpaqueConfig)],
) -> Result<&'a ComputeDomainChannelConfig, PrepareError> {
    let applies = |config: &DeviceConfig| {
        let requests = config.requests();
        let request = result.request();
        requests.is_empty()
            || requests
                .iter()
                .any(|name| name == request || name == base(request))
    };
    match configs.iter().rev().find(|(config, _)| applies(config)) {
        Some((_, OpaqueConfig::Channel(channel))) => Ok(channel),
        Some((_, OpaqueConfig::Daemon(_))) => Err(PrepareError::DaemonClaim),
        None => Err(PrepareError::NoConfig {
            request: result.request().to_owned(),
        }),
    }
}

fn single(mode: &AllocationMode) -> Result<(), PrepareError> {
    match mode {
        AllocationMode::Unset | AllocationMode::Single => Ok(()),
        AllocationMode::All | AllocationMode::Unknown(_) => Err(PrepareError::AllocationMode {
            mode: mode.as_str().to_owned(),
        }),
    }
}

/// The part of a request's name before a subrequest's.
fn base(request: &str) -> &str {
    request.split_once('/').map_or(request, |(base, _)| base)
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
