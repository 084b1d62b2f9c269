#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod claim_ref;
pub mod gojson;
mod status;

pub use claim_ref::ClaimRef;
pub use status::{
    ClaimStatus, ConfigSource, Consumer, DeviceConfig, DeviceResult, DeviceStatus, MetaTime,
    StatusError, base_request, optional_time,
};
