//! The part of this crate that is specific to NVIDIA: IMEX channels, the driver's device nodes and
//! files, and the channels that a container requests. The rest of the
//! crate is for specs of any vendor; only `lint` uses this module.

mod capability;
mod channel;
mod driver_file;
mod major;
mod params;
mod requested_channels;

pub use capability::{Capability, IMEX_MGMT_CAPABILITY};
pub use channel::{CHANNEL_DIR, ChannelId, ChannelIdError, channel_edits, channel_node};
pub use driver_file::{DriverFileError, DriverTextError};
pub use major::{
    CHANNEL_DRIVER, Major, MajorError, MajorOutOfRange, PROC_DEVICES, ReadMajorError,
    channel_major, read_channel_major, read_device_list,
};
pub(crate) use params::MODE_BITS;
pub use params::{DRIVER_PARAMS, DriverParams};
pub use requested_channels::{
    Channels, ContainerView, DeviceView, MountView, RequestSource, RequestedChannel,
    RequestedChannels, RuleView, requested_channels,
};
