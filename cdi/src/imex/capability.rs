//! Capabilities of the NVIDIA driver: a process that may open a capability's device node may use
//! it.

use std::path::Path;

use super::driver_file::{self, DriverText};
use super::params::MODE_BITS;
use crate::{ChannelId, DriverFileError, DriverTextError};

/// The capability that the IMEX daemon needs, but no workload does.
pub const IMEX_MGMT_CAPABILITY: &str = "/proc/driver/nvidia/capabilities/fabric-imex-mgmt";

/// A capability's device node: `/dev/nvidia-caps/nvidia-capN`, where N is the
/// minor; the major is that of the driver `nvidia-caps`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    /// `DeviceFileMinor`.
    pub minor: u32,
    /// `DeviceFileMode`: permission bits of the node.
    pub mode: u32,
    /// `DeviceFileModify`: `nvidia-modprobe` creates and repairs the device node.
    pub modify: bool,
}

impl Capability {
    /// Parses the content of a file like [`IMEX_MGMT_CAPABILITY`]: `Key: value`
    /// lines with decimal numbers. A number that cannot be parsed is an error:
    /// read as 0 it would name another capability.
    pub fn parse(text: &str) -> Result<Self, DriverTextError> {
        let text = DriverText::new(text)?;
        Ok(Self {
            minor: text.required("DeviceFileMinor", 0..=ChannelId::LIMIT - 1)?,
            mode: text.required("DeviceFileMode", 0..=MODE_BITS)?,
            modify: text.required("DeviceFileModify", 0..=u32::MAX)? == 1,
        })
    }

    /// Reads the regular file `path` of at most 64 KiB.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, DriverFileError> {
        driver_file::read(path.as_ref(), Self::parse)
    }
}
