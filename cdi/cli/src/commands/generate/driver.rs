//! The channels that the driver has.

use std::io;
use std::path::{Path, PathBuf};

use host_doctor::Majors;
use imex_cdi::{ChannelId, DriverFileError, DriverParams, Major, read_channel_major};

use super::error::GenerateError;
use crate::args::{Channels, MajorArg, OrAuto};
use crate::stderr::note;

/// The driver's files below a /proc.
pub(super) struct Driver {
    proc: PathBuf,
    /// `None` without a driver.
    params: Option<DriverParams>,
}

impl Driver {
    pub(super) fn read(proc: PathBuf) -> Result<Self, GenerateError> {
        let params = match DriverParams::read(params_path(&proc)) {
            Ok(params) => Some(params),
            Err(DriverFileError::Unreadable { source, .. })
                if source.kind() == io::ErrorKind::NotFound =>
            {
                None
            }
            Err(error) => return Err(GenerateError::Params(error)),
        };
        Ok(Self { proc, params })
    }

    /// All `None` without a driver.
    pub(super) fn params(&self) -> DriverParams {
        self.params.unwrap_or_default()
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

    /// The requested channels, if the driver has them. Without a driver's channel
    /// count, only channels that are listed can be requested.
    pub(super) fn channels(&self, requested: Channels) -> Result<Vec<ChannelId>, GenerateError> {
        match (requested, self.params().imex_channel_count) {
            (Channels::List(ids), None) => Ok(ids),
            (Channels::All, None) => Err(self.no_count()),
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

    fn no_count(&self) -> GenerateError {
        GenerateError::NoCount {
            path: params_path(&self.proc),
            why: if self.params.is_some() {
                "has no ImexChannelCount"
            } else {
                "does not exist"
            },
        }
    }
}

fn params_path(proc: &Path) -> PathBuf {
    proc.join("driver/nvidia/params")
}
