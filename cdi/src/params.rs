//! Options of the NVIDIA kernel module that concern IMEX channels.

use std::path::Path;

use crate::driver_file::{self, DriverText};
use crate::{ChannelId, DriverFileError, DriverTextError};

/// Where the driver shows its options.
pub const DRIVER_PARAMS: &str = "/proc/driver/nvidia/params";

/// The permission bits of a file, with set-user-ID and its like.
pub(crate) const MODE_BITS: u32 = 0o7777;

/// What the driver's options say. `None` is an option that the driver does not
/// have, as those before IMEX do not have the first two: it is not the option's
/// default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DriverParams {
    /// `ImexChannelCount`: channels are 0 to one less than this; 0 is a driver
    /// told to have none. The module's default is 2048.
    pub imex_channel_count: Option<u32>,
    /// `CreateImexChannel0`: the driver itself makes the node of channel 0, for
    /// anybody on the host. Off by default.
    pub create_imex_channel0: Option<bool>,
    /// `ModifyDeviceFiles`: `nvidia-modprobe` makes and repairs nodes. Without it
    /// it does nothing, and says that it did.
    pub modify_device_files: Option<bool>,
    /// `DeviceFileMode`: permission bits that nodes on the host get. The module's
    /// default is 0666.
    pub device_file_mode: Option<u32>,
    /// `DeviceFileUID`: their owner.
    pub device_file_uid: Option<u32>,
    /// `DeviceFileGID`: their group.
    pub device_file_gid: Option<u32>,
}

impl DriverParams {
    /// Reads a text like [`DRIVER_PARAMS`], `Key: value` on each line; numbers are
    /// decimal, the mode too, without leading zeros. Of an option that is on or off,
    /// 1 is on and any other number off, as for the driver. Other keys are passed
    /// over.
    pub fn parse(text: &str) -> Result<Self, DriverTextError> {
        let text = DriverText::new(text)?;
        let any = 0..=u32::MAX;
        // The highest is none.
        let ids = 0..=u32::MAX - 1;
        // The driver and its tools take 1 for yes and all else for no.
        let option = |key| Ok(text.number(key, any.clone())?.map(|number| number == 1));
        Ok(Self {
            imex_channel_count: text.number("ImexChannelCount", 0..=ChannelId::LIMIT)?,
            create_imex_channel0: option("CreateImexChannel0")?,
            modify_device_files: option("ModifyDeviceFiles")?,
            device_file_mode: text.number("DeviceFileMode", 0..=MODE_BITS)?,
            device_file_uid: text.number("DeviceFileUID", ids.clone())?,
            device_file_gid: text.number("DeviceFileGID", ids)?,
        })
    }

    /// Reads the file `path`, usually [`DRIVER_PARAMS`], if it is a regular
    /// one of at most 64 KiB.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, DriverFileError> {
        driver_file::read(path.as_ref(), Self::parse)
    }
}
