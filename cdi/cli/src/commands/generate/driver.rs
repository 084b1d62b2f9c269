//! The channels that the driver has.

use std::io;
use std::path::PathBuf;

use dra_common::error_chain;
use host_doctor::Majors;
use imex_cdi::{
    ChannelId, DriverFileError, DriverParams, Major, ReadMajorError, read_channel_major,
};

use crate::args::{Channels, MajorArg};
use crate::outcome::{Failure, Outcome};
use crate::terminal::note;

/// The driver's files below a /proc.
pub(super) struct Driver {
    proc: PathBuf,
    /// `None` without a driver.
    params: Option<DriverParams>,
}

impl Driver {
    pub(super) fn read(proc: PathBuf) -> Result<Self, Failure> {
        use DriverFileError::{NotAFile, Unreadable};
        let params = match DriverParams::read(proc.join("driver/nvidia/params")) {
            Ok(params) => Some(params),
            Err(Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                let outcome = match error {
                    Unreadable { .. } | NotAFile { .. } => Outcome::Io,
                    _ => Outcome::Findings,
                };
                return Err(Failure::new(outcome, error_chain(&error)).hint(error.hint()));
            }
        };
        Ok(Self { proc, params })
    }

    /// All `None` without a driver.
    pub(super) fn params(&self) -> DriverParams {
        self.params.unwrap_or_default()
    }

    pub(super) fn major(&self, option: MajorArg) -> Result<Major, Failure> {
        if let MajorArg::Value(major) = option {
            return Ok(major);
        }
        read_channel_major(self.proc.join("devices")).map_err(|error| {
            let outcome = match error {
                ReadMajorError::Content { .. } => Outcome::Findings,
                _ => Outcome::Io,
            };
            Failure::new(outcome, error_chain(&error)).hint(format!(
                "{}; or give the major with --major N",
                error.hint()
            ))
        })
    }

    /// Warns if the given major is not the driver's.
    pub(super) fn warn_major_mismatch(&self, option: MajorArg) {
        let MajorArg::Value(major) = option else {
            return;
        };
        let majors = Majors::read(&self.proc.join("devices"));
        let stale = majors.and_then(|majors| majors.contradiction(major.get().into()));
        if let Some(stale) = stale {
            note(&format!(
                "{stale}: no container on this host could open a device node with this major; omit --major"
            ));
        }
    }

    /// The requested channels, if the driver has them. If the driver's channel count is unknown,
    /// the channels must be listed.
    pub(super) fn channels(&self, requested: &Channels) -> Result<Vec<ChannelId>, Failure> {
        let findings = |message: String| Failure::new(Outcome::Findings, message);
        match (requested, self.params().imex_channel_count) {
            (Channels::List(ids), None) => Ok(ids.clone()),
            (Channels::All, None) => {
                let path = self.proc.join("driver/nvidia/params");
                let why = match self.params {
                    Some(_) => "has no ImexChannelCount",
                    None => "does not exist",
                };
                let message = format!(
                    "the number of channels is unknown: {} {why}",
                    path.display()
                );
                Err(findings(message)
                    .hint("list the channels explicitly, for example --channels 0"))
            }
            (_, Some(0)) => {
                let message = "the driver has no IMEX channels (ImexChannelCount is 0)".to_owned();
                let hint = "load the nvidia kernel module with NVreg_ImexChannelCount above 0";
                Err(findings(message).hint(hint))
            }
            (Channels::List(ids), Some(count)) => {
                let Some(channel) = ids.iter().find(|channel| channel.get() >= count) else {
                    return Ok(ids.clone());
                };
                let message = format!(
                    "channel {channel} does not exist: the driver has {count} channels, numbered from 0"
                );
                Err(findings(message).hint("choose an existing channel"))
            }
            // A count that was read never exceeds the valid ids.
            (Channels::All, Some(count)) => Ok((0..count)
                .filter_map(|id| ChannelId::new(id).ok())
                .collect()),
        }
    }
}
