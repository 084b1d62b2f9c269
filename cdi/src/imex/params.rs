//! Options of the NVIDIA kernel module that concern IMEX channels and device nodes.

use std::path::Path;

use super::driver_file::{self, DriverText};
use crate::{ChannelId, DeviceNode, DeviceType, DriverFileError, DriverTextError};

/// Where the driver lists its options.
pub const DRIVER_PARAMS: &str = "/proc/driver/nvidia/params";

/// The mode of the driver's device nodes, unless `DeviceFileMode` is another one.
const MODE: u32 = 0o666;

/// The mode of the device nodes of capabilities.
const CAPABILITY_MODE: u32 = 0o444;

/// The permission bits of a file, including set-user-ID, set-group-ID and sticky.
pub(crate) const MODE_BITS: u32 = 0o7777;

/// The driver's options. `None` means that the driver does not have the option, as
/// drivers before IMEX lack the first two; it does not mean the option's default.
///
/// Some distributions configure another owner or mode for the driver's device nodes:
///
/// ```
/// use imex_cdi::{ChannelId, DeviceNode, DriverParams, Major, channel_node};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // As DriverParams::read(DRIVER_PARAMS) on a host with NVreg_DeviceFileMode=0660.
/// let params = DriverParams::parse("ImexChannelCount: 2048\nDeviceFileMode: 432\nDeviceFileGID: 44\n")?;
/// let node = channel_node(ChannelId::new(0)?, Major::new(235)?);
/// let node = DeviceNode {
///     file_mode: params.device_file_mode.or(node.file_mode),
///     gid: params.device_file_gid,
///     ..node
/// };
/// assert_eq!((node.file_mode, node.gid), (Some(0o660), Some(44)));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DriverParams {
    /// `ImexChannelCount`: the channels are 0 to one less than this; 0 disables
    /// them. The module's default is 2048.
    pub imex_channel_count: Option<u32>,
    /// `CreateImexChannel0`: the driver itself creates the device node of channel 0,
    /// for everyone on the host. Off by default.
    pub create_imex_channel0: Option<bool>,
    /// `ModifyDeviceFiles`: `nvidia-modprobe` creates and repairs device nodes.
    /// When off, it does nothing and still reports success.
    pub modify_device_files: Option<bool>,
    /// `DeviceFileMode`: permission bits of device nodes on the host. The module's
    /// default is 0666.
    pub device_file_mode: Option<u32>,
    /// `DeviceFileUID`: their owner.
    pub device_file_uid: Option<u32>,
    /// `DeviceFileGID`: their group.
    pub device_file_gid: Option<u32>,
}

impl DriverParams {
    /// Parses the content of a file like [`DRIVER_PARAMS`]: `Key: value` lines with
    /// decimal numbers without leading zeros, the mode too. For a switch, 1 is on and any other
    /// number off, as in the driver. Other keys are ignored.
    pub fn parse(text: &str) -> Result<Self, DriverTextError> {
        let text = DriverText::new(text)?;
        let any = 0..=u32::MAX;
        // The highest id means no user or group to the kernel.
        let ids = 0..=u32::MAX - 1;
        let switch = |key| Ok(text.number(key, any.clone())?.map(|number| number == 1));
        Ok(Self {
            imex_channel_count: text.number("ImexChannelCount", 0..=ChannelId::LIMIT)?,
            create_imex_channel0: switch("CreateImexChannel0")?,
            modify_device_files: switch("ModifyDeviceFiles")?,
            device_file_mode: text.number("DeviceFileMode", 0..=MODE_BITS)?,
            device_file_uid: text.number("DeviceFileUID", ids.clone())?,
            device_file_gid: text.number("DeviceFileGID", ids)?,
        })
    }

    /// Reads the regular file `path` of at most 64 KiB, usually [`DRIVER_PARAMS`].
    pub fn read(path: impl AsRef<Path>) -> Result<Self, DriverFileError> {
        driver_file::read(path.as_ref(), Self::parse)
    }

    /// The character device at `path` in a container, by number: the runtime makes it, and the host
    /// needs none. Access is `rwm`, as CDI's default.
    ///
    /// Nodes of the driver (`/dev/nvidia...`) have the mode and owner of these options; those of
    /// capabilities (`/dev/nvidia-caps/`) have mode 0444. Other nodes, such as `/dev/dri/card0`,
    /// have mode 0666 and no owner.
    // req: GPU-11
    pub fn device_node(&self, path: &str, major: u32, minor: u32) -> DeviceNode {
        let is_drivers = path.starts_with("/dev/nvidia");
        let of_driver = |option: Option<u32>| option.filter(|_| is_drivers);
        let file_mode = if path.starts_with("/dev/nvidia-caps/") {
            CAPABILITY_MODE
        } else {
            of_driver(self.device_file_mode).unwrap_or(MODE)
        };
        DeviceNode {
            path: path.to_owned(),
            device_type: Some(DeviceType::Char),
            major: Some(major.into()),
            minor: Some(minor.into()),
            file_mode: Some(file_mode),
            uid: of_driver(self.device_file_uid),
            gid: of_driver(self.device_file_gid),
            ..DeviceNode::default()
        }
    }
}
