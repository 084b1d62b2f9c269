//! Why there is no spec.

use std::path::PathBuf;

use imex_cdi::{
    ChannelId, DriverFileError, Kind, MAX_SPEC_LEN, NameError, QualifiedName, ReadMajorError,
    SpecError,
};

use crate::args::Mode;

#[derive(Debug, thiserror::Error)]
pub(crate) enum GenerateError {
    #[error("{option} has no meaning with --mode {mode}")]
    WithoutMeaning { option: &'static str, mode: Mode },
    #[error(transparent)]
    Major(ReadMajorError),
    #[error(transparent)]
    Params(DriverFileError),
    #[error("cannot tell how many channels there are: {} {why}", path.display())]
    NoCount { path: PathBuf, why: &'static str },
    #[error("the driver has no IMEX channels (its count is 0)")]
    NoChannels,
    #[error("channel {channel} does not exist: the driver has {count}, numbered from 0")]
    NoSuchChannel { channel: ChannelId, count: u32 },
    #[error("{count} channels are more than a driver can have ({limit})", limit = ChannelId::LIMIT)]
    CountTooHigh { count: u32 },
    #[error(transparent)]
    Name(NameError),
    #[error("--dev-root {} is no absolute path in UTF-8", path.display())]
    DevRoot { path: PathBuf },
    #[error(transparent)]
    Spec(SpecError),
    #[error(
        "the spec has {} MiB, and none longer than {} MiB is loaded",
        len >> 20,
        MAX_SPEC_LEN >> 20
    )]
    TooLong { len: usize },
    #[error("{kind} has a part of one letter, at which Go's CDI library panics up to 1.1.0")]
    OneLetter { kind: Kind },
    #[error("{} is no file's path", path.display())]
    NoFileName { path: PathBuf },
    #[error("{} defines {name} already: with both files it would resolve nowhere", path.display())]
    Conflict { path: PathBuf, name: QualifiedName },
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        source: durable_file::Error,
    },
}

impl GenerateError {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::WithoutMeaning { .. }
            | Self::CountTooHigh { .. }
            | Self::Name(_)
            | Self::DevRoot { .. }
            | Self::Spec(_)
            | Self::TooLong { .. }
            | Self::OneLetter { .. }
            | Self::NoFileName { .. } => 2,
            Self::Major(
                ReadMajorError::Unreadable { .. }
                | ReadMajorError::NotAFile { .. }
                | ReadMajorError::TooLong { .. },
            )
            | Self::Params(DriverFileError::Unreadable { .. } | DriverFileError::NotAFile { .. })
            | Self::Write { .. } => 3,
            Self::Major(_)
            | Self::Params(_)
            | Self::NoCount { .. }
            | Self::NoChannels
            | Self::NoSuchChannel { .. }
            | Self::Conflict { .. } => 1,
        }
    }

    pub(crate) fn hint(&self) -> String {
        match self {
            Self::WithoutMeaning { option, .. } => format!("leave {option} out"),
            Self::Major(error) => format!("{}; or name it with --major N", error.hint()),
            Self::Params(error) => error.hint().to_owned(),
            Self::NoCount { .. } => {
                "name the channels, as in --channels 0, or how many there are with --count N"
                    .to_owned()
            }
            Self::NoChannels => {
                "load the nvidia kernel module with NVreg_ImexChannelCount above 0, or say \
                 --count N"
                    .to_owned()
            }
            Self::NoSuchChannel { .. } => {
                "ask for a channel that exists, or say with --count N that there are more"
                    .to_owned()
            }
            Self::CountTooHigh { .. } => "NVreg_ImexChannelCount is at most that".to_owned(),
            Self::Name(error) => error.hint().to_owned(),
            Self::DevRoot { .. } => "name the directory that has the driver's dev".to_owned(),
            Self::Spec(error) => format!("{}; or leave --version at min", error.hint()),
            Self::TooLong { .. } => "name fewer channels".to_owned(),
            Self::OneLetter { .. } => {
                "give vendor and class two characters or more: every runtime of the host would \
                 stop at the file"
                    .to_owned()
            }
            Self::NoFileName { .. } => "name the file, or - for stdout".to_owned(),
            Self::Conflict { .. } => {
                "remove one, or choose another --kind or --name-style".to_owned()
            }
            Self::Write { source, .. } => source.hint().to_owned(),
        }
    }
}
