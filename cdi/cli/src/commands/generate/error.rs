//! Why no spec was written.

use std::borrow::Cow;
use std::path::PathBuf;

use imex_cdi::{
    ChannelId, DriverFileError, Kind, MAX_SPEC_LEN, QualifiedName, ReadMajorError, SpecError,
};

use crate::outcome::{CommandError, Outcome};

#[derive(Debug, thiserror::Error)]
pub(super) enum GenerateError {
    #[error("--major has no meaning with --mode host-path: the node is the host's")]
    MajorOfHostPath,
    #[error(transparent)]
    Major(ReadMajorError),
    #[error(transparent)]
    Params(DriverFileError),
    #[error("the number of channels is unknown: {} {why}", path.display())]
    NoCount { path: PathBuf, why: &'static str },
    #[error("the driver has no IMEX channels (its count is 0)")]
    NoChannels,
    #[error("channel {channel} does not exist: the driver has {count}, numbered from 0")]
    NoSuchChannel { channel: ChannelId, count: u32 },
    #[error(transparent)]
    Spec(SpecError),
    #[error("the spec has {len} bytes, and no device spec is longer than {MAX_SPEC_LEN}")]
    TooLong { len: usize },
    #[error("{kind} has a part of one letter, on which Go's CDI library panics (up to 1.1.0)")]
    OneLetter { kind: Kind },
    #[error("{} is not the path of a file", path.display())]
    NoFileName { path: PathBuf },
    #[error("{} exists and is not a regular file", path.display())]
    NotAFile { path: PathBuf },
    #[error("{} already defines {name}: with both files it would not resolve", path.display())]
    Conflict { path: PathBuf, name: QualifiedName },
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        source: durable_file::Error,
    },
}

// === impl GenerateError ===

impl CommandError for GenerateError {
    fn outcome(&self) -> Outcome {
        match self {
            Self::MajorOfHostPath
            | Self::Spec(_)
            | Self::TooLong { .. }
            | Self::OneLetter { .. }
            | Self::NoFileName { .. } => Outcome::Usage,
            Self::Major(
                ReadMajorError::Unreadable { .. }
                | ReadMajorError::NotAFile { .. }
                | ReadMajorError::TooLong { .. },
            )
            | Self::Params(DriverFileError::Unreadable { .. } | DriverFileError::NotAFile { .. })
            | Self::NotAFile { .. }
            | Self::Write { .. } => Outcome::Io,
            Self::Major(_)
            | Self::Params(_)
            | Self::NoCount { .. }
            | Self::NoChannels
            | Self::NoSuchChannel { .. }
            | Self::Conflict { .. } => Outcome::Findings,
        }
    }

    fn hint(&self) -> Option<Cow<'static, str>> {
        let hint = match self {
            Self::MajorOfHostPath => "leave --major out",
            Self::Major(error) => {
                return Some(format!("{}; or give the major with --major N", error.hint()).into());
            }
            Self::Spec(error) => {
                return Some(format!("{}; or leave --version at min", error.hint()).into());
            }
            Self::Params(error) => error.hint(),
            Self::NoCount { .. } => "give the channels, as in --channels 0",
            Self::NoChannels => "load the nvidia kernel module with NVreg_ImexChannelCount above 0",
            Self::NoSuchChannel { .. } => "ask for a channel that exists",
            Self::TooLong { .. } => "give fewer channels, or put some into another file",
            Self::OneLetter { .. } => {
                "give vendor and class two characters or more: every runtime of the host would \
                 fail on the file"
            }
            Self::NoFileName { .. } => "give a file, or - for stdout",
            Self::NotAFile { .. } => "give another path; for a link, its target",
            Self::Conflict { .. } => "remove one, or choose another --kind",
            Self::Write { source, .. } => source.hint(),
        };
        Some(hint.into())
    }
}
