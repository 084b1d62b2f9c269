#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod claim_ref;
pub mod gojson;
mod parameters;
mod status;

pub use claim_ref::ClaimRef;
pub use parameters::{Parameters, ParametersError};
pub use status::{
    ClaimStatus, ConfigSource, Consumer, DeviceConfig, DeviceResult, DeviceStatus, MetaTime,
    StatusError, base_request, optional_time, quantity_value,
};
