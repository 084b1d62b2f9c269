//! `cdi-gen generate`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use imex_cdi::{Kind, Major, Permissions, SpecVersion};

use super::{Channels, EXIT_CODES, SpecDirs, named};

// Not doc comments: the driver's words would need marks that a terminal shows.
const ABOUT_COUNT: &str = "\
How many channels the driver has; auto is ImexChannelCount in
/proc/driver/nvidia/params, and nothing is checked without a driver";
const ABOUT_UID: &str = "\
The node's owner; otherwise DeviceFileUID of the driver's params, and if there is
none, the container's user";
const ABOUT_GID: &str = "\
The node's group; otherwise DeviceFileGID of the driver's params, and if there is
none, the container's group";
const ABOUT_MODE: &str = "\
The node's permission bits, in octal; otherwise DeviceFileMode of the driver's
params, and if there is none, 0666";

/// Writes a CDI spec for IMEX channels of this host.
///
/// Without a driver on the host, name the numbers: --major 235.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Generate {
    /// What kind of devices.
    #[arg(value_enum, default_value = "imex")]
    pub(crate) devices: Devices,
    /// The channels: numbers and ranges such as 0,3-7, or all that the driver
    /// has. A channel is a means of isolation: give a container the one it
    /// needs.
    #[arg(long, value_name = "LIST|all")]
    pub(crate) channels: Channels,
    /// The major of the channels' nodes; auto is that of /proc/devices.
    #[arg(long, value_name = "auto|N", default_value = "auto")]
    pub(crate) major: OrAuto<MajorArg>,
    #[arg(long, value_name = "auto|N", default_value = "auto", help = ABOUT_COUNT)]
    pub(crate) count: OrAuto<u32>,
    /// Where a container's node comes from.
    #[arg(long, value_enum, default_value = "mknod")]
    pub(crate) mode: Mode,
    /// The devices' vendor/class.
    #[arg(long, default_value = "nvidia.com/imex-channel", value_parser = named::<Kind>)]
    pub(crate) kind: Kind,
    /// The devices' names.
    #[arg(long, value_enum, default_value = "channel-N")]
    pub(crate) name_style: NameStyle,
    /// What the device cgroup allows: of r, w and m (mknod).
    #[arg(long, default_value = "rw", value_parser = permissions)]
    pub(crate) permissions: Permissions,
    #[arg(long, value_name = "N", help = ABOUT_UID)]
    pub(crate) uid: Option<u32>,
    #[arg(long, value_name = "N", help = ABOUT_GID)]
    pub(crate) gid: Option<u32>,
    #[arg(long, value_name = "MODE", value_parser = file_mode, help = ABOUT_MODE)]
    pub(crate) file_mode: Option<u32>,
    /// The spec's cdiVersion; min is the lowest that has what the spec uses,
    /// which most runtimes load.
    #[arg(long, value_name = "min|X.Y.Z", default_value = "min")]
    pub(crate) version: OrMin,
    /// How the spec is written. Files that runtimes read should be JSON: a
    /// part of one is never taken for the whole.
    #[arg(long, value_enum, default_value = "json")]
    pub(crate) format: Format,
    /// A file to write to, in one durable step; - is stdout.
    #[arg(long, value_name = "PATH", default_value = "-")]
    pub(crate) output: PathBuf,
    /// Writes the file into the last --spec-dir (/var/run/cdi, which is empty
    /// after a boot, as the major is another then), under the name that CDI has
    /// for it, VENDOR-CLASS.json.
    #[arg(long, conflicts_with_all = ["output", "format"])]
    pub(crate) install: bool,
    /// Makes the installed file's name VENDOR-CLASS_ID.json, so that
    /// several can be there.
    #[arg(long, requires = "install", value_parser = id)]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) specs: SpecDirs,
    /// The host's /proc, if it is not below --root.
    #[arg(long, value_name = "DIR")]
    pub(crate) proc_root: Option<PathBuf>,
    /// What stands before /dev in the spec's host paths: a driver container's
    /// root, for instance. Only with --mode host-path.
    #[arg(long, value_name = "DIR")]
    pub(crate) dev_root: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Devices {
    /// IMEX channels.
    Imex,
}

/// A value, or leave to find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OrAuto<T> {
    Auto,
    This(T),
}

/// A number that can be a major.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MajorArg(pub(crate) Major);

/// A version, or the lowest that will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OrMin {
    Min,
    This(SpecVersion),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// The runtime makes it from the numbers; the host needs none. Not for
    /// containers in a user namespace.
    Mknod,
    /// As the host's node is when a container starts, which must be there.
    HostPath,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum NameStyle {
    /// As the DRA device is called: channel-0.
    #[value(name = "channel-N")]
    Dashed,
    /// As the node in /dev is called: channel0.
    #[value(name = "channelN")]
    Node,
    /// As nvidia-ctk calls it: 0. Needs CDI 0.5.0.
    #[value(name = "N")]
    Number,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Json,
    Yaml,
}

// === impl OrAuto ===

impl<T: FromStr> FromStr for OrAuto<T> {
    type Err = T::Err;

    fn from_str(typed: &str) -> Result<Self, T::Err> {
        match typed {
            "auto" => Ok(Self::Auto),
            _ => typed.parse().map(Self::This),
        }
    }
}

// === impl MajorArg ===

impl FromStr for MajorArg {
    type Err = String;

    fn from_str(typed: &str) -> Result<Self, String> {
        let number: u32 = typed
            .parse()
            .map_err(|_| "it is neither auto nor a number".to_owned())?;
        let major = Major::new(number).map_err(|error| error.to_string())?;
        Ok(Self(major))
    }
}

// === impl OrMin ===

impl FromStr for OrMin {
    type Err = imex_cdi::UnknownVersion;

    fn from_str(typed: &str) -> Result<Self, Self::Err> {
        match typed {
            "min" => Ok(Self::Min),
            _ => typed.parse().map(Self::This),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mknod => "mknod",
            Self::HostPath => "host-path",
        })
    }
}

/// None would mean all of them to a runtime.
fn permissions(typed: &str) -> Result<Permissions, String> {
    if typed.is_empty() {
        return Err("it is empty, which runtimes take for rwm".to_owned());
    }
    typed
        .parse()
        .map_err(|error: imex_cdi::UnknownPermission| error.to_string())
}

fn file_mode(typed: &str) -> Result<u32, String> {
    let digits = typed.strip_prefix("0o").unwrap_or(typed);
    u32::from_str_radix(digits, 8)
        .ok()
        .filter(|mode| *mode <= 0o777 && !digits.starts_with('+'))
        .ok_or_else(|| "it is not an octal number up to 777".to_owned())
}

/// Part of a file's name, after the `_` that no kind's end can be mistaken for.
fn id(typed: &str) -> Result<String, String> {
    let inside = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if typed.is_empty() || !typed.bytes().all(inside) || typed.len() > 128 {
        return Err("it is not 1 to 128 letters, digits, '-', '_' and '.'".to_owned());
    }
    Ok(typed.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_mode_is_octal() {
        for typed in ["666", "0666", "0o666"] {
            assert_eq!(file_mode(typed), Ok(0o666));
        }
        for typed in ["", "888", "1777", "+666", "-1", "rw"] {
            assert!(file_mode(typed).is_err(), "{typed:?}");
        }
    }

    #[test]
    fn an_id_cannot_leave_the_directory() {
        assert!(id("job-7.a_b").is_ok());
        for typed in ["", "a/b", "..\0", "a b", "ä"] {
            assert!(id(typed).is_err(), "{typed:?}");
        }
    }
}
