//! The channels that the driver has.

use std::io;
use std::path::{Path, PathBuf};

use host_doctor::Majors;
use imex_cdi::{ChannelId, DriverFileError, DriverParams, Major, read_channel_major};

use super::error::GenerateError;
use crate::args::{Channels, MajorArg, OrAuto};
use crate::stderr::note;

/// The driver's files below a /proc; there may be none.
pub(super) struct Driver {
    proc: PathBuf,
}

impl Driver {
    pub(super) fn new(proc: PathBuf) -> Self {
        Self { proc }
    }

    pub(super) fn major(&self, option: OrAuto<MajorArg>) -> Result<Major, GenerateError> {
        match option {
            OrAuto::Value(MajorArg(major)) => Ok(major),
            OrAuto::Auto => {
                read_channel_major(self.proc.join("devices")).map_err(GenerateError::Major)
            }
        }
    }

    /// Warns if the given major is not the driver's.
    pub(super) fn note_contradiction(&self, option: OrAuto<MajorArg>) {
        let OrAuto::Value(MajorArg(major)) = option else {
            return;
        };
        let majors = Majors::read(&self.proc.join("devices"));
        let stale = majors.and_then(|majors| majors.contradiction(major.get().into()));
        if let Some(stale) = stale {
            note(&format!(
                "{stale}: no container of this host can open such a node; leave --major out"
            ));
        }
    }

    /// `None` without a driver.
    pub(super) fn params(&self) -> Result<Option<DriverParams>, GenerateError> {
        match DriverParams::read(self.params_path()) {
            Ok(params) => Ok(Some(params)),
            Err(DriverFileError::Unreadable { source, .. })
                if source.kind() == io::ErrorKind::NotFound =>
            {
                Ok(None)
            }
            Err(error) => Err(GenerateError::Params(error)),
        }
    }

    /// The requested channels, if the driver has them. Without a driver's channel
    /// count, only channels that are listed can be requested.
    pub(super) fn channels(&self, requested: Channels) -> Result<Vec<ChannelId>, GenerateError> {
        let params = self.params()?;
        let count = params.and_then(|params| params.imex_channel_count);
        match (requested, count) {
            (Channels::List(ids), None) => Ok(ids),
            (Channels::All, None) => Err(self.no_count(params.is_some())),
            (_, Some(0)) => Err(GenerateError::NoChannels),
            (Channels::List(ids), Some(count)) => {
                match ids.iter().find(|channel| channel.get() >= count) {
                    Some(&channel) => Err(GenerateError::NoSuchChannel { channel, count }),
                    None => Ok(ids),
                }
            }
            // A count that is read is of channels that there can be.
            (Channels::All, Some(count)) => Ok((0..count)
                .filter_map(|id| ChannelId::new(id).ok())
                .collect()),
        }
    }

    fn params_path(&self) -> PathBuf {
        self.proc.join(Path::new("driver/nvidia/params"))
    }

    fn no_count(&self, has_params: bool) -> GenerateError {
        GenerateError::NoCount {
            path: self.params_path(),
            why: if has_params {
                "has no ImexChannelCount"
            } else {
                "does not exist"
            },
        }
    }
}
