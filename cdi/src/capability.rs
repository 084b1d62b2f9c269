//! Capabilities of the NVIDIA driver: who may open one's node may use it.

use std::path::Path;

use crate::driver_file::{self, DriverText};
use crate::params::MODE_BITS;
use crate::{ChannelId, DriverFileError, DriverTextError};

/// The capability that the IMEX daemon needs, and no workload.
pub const IMEX_MGMT_CAPABILITY: &str = "/proc/driver/nvidia/capabilities/fabric-imex-mgmt";

/// A capability's device: `/dev/nvidia-caps/nvidia-capN`, N the minor, of the
/// driver `nvidia-caps`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    /// `DeviceFileMinor`.
    pub minor: u32,
    /// `DeviceFileMode`: permission bits of the node.
    pub mode: u32,
    /// `DeviceFileModify`: `nvidia-modprobe` makes and repairs the node.
    pub modify: bool,
}

impl Capability {
    /// Reads a text like [`IMEX_MGMT_CAPABILITY`], `Key: value` on each line with
    /// decimal numbers. A number that cannot be read is an error: taken for 0 it
    /// would name another capability.
    pub fn parse(text: &str) -> Result<Self, DriverTextError> {
        let text = DriverText::new(text)?;
        Ok(Self {
            minor: text.required("DeviceFileMinor", 0..=ChannelId::LIMIT - 1)?,
            mode: text.required("DeviceFileMode", 0..=MODE_BITS)?,
            modify: text.required("DeviceFileModify", 0..=u32::MAX)? == 1,
        })
    }

    /// Reads the file `path`, if it is a regular one of at most 64 KiB.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, DriverFileError> {
        driver_file::read(path.as_ref(), Self::parse)
    }
}
