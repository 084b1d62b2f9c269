//! The first transaction of a Prepare: nothing is refused, and nothing answered,
//! from records that another process may have changed meanwhile.

use dra_checkpoint::{ClaimRef, ClaimStatus, Claims, View};
use imex_cdi::{ChannelId, ClaimSpecs, ClaimUid, Major};

use crate::device_group::{DeviceGroup, KubeletDevice};
use crate::error::PrepareError;
use crate::guard::Guard;
use crate::imex_daemon::NeededDaemon;
use crate::lifecycle::{Step, Transaction};
use crate::moment::{FenceClock, Moment};
use crate::node_claims::steps;
use crate::request::ChannelRequest;
use crate::spec::{kubelet_devices, rewrite};

/// The transaction, with everything that decides about it.
pub(crate) struct BeginPrepare {
    pub(crate) uid: ClaimUid,
    pub(crate) claim: ClaimRef,
    pub(crate) status: ClaimStatus,
    pub(crate) request: ChannelRequest,
    /// For a claim that is prepared already.
    pub(crate) known_major: Option<Major>,
    /// For any other: the channel that it opens, or why the domain does not allow it.
    pub(crate) channel: Result<ChannelId, PrepareError>,
    /// And the major, or why the hardware does not allow it; `None`: the claim goes without a device.
    pub(crate) allowed: Result<Option<Major>, PrepareError>,
    /// What it waits for besides.
    pub(crate) daemon: Option<NeededDaemon>,
    pub(crate) now: Moment,
}

/// How a Prepare goes on.
#[derive(Debug)]
pub(crate) enum Begun {
    /// Not at all: the claim was prepared already, and its spec is in place.
    Prepared(Vec<KubeletDevice>),
    /// The record is Started; the device is to be this channel, with this major. Without a
    /// major, there is to be none.
    Started(ChannelId, Option<Major>),
}

// === impl BeginPrepare ===

impl BeginPrepare {
    // req: NODE-21
    pub(crate) fn run(
        self,
        claims: &mut Claims<DeviceGroup>,
        specs: &ClaimSpecs,
        fences: &FenceClock,
        guard: Guard,
    ) -> Result<Begun, PrepareError> {
        if let Some(devices) = answer_if_prepared(claims, specs, &self.uid, self.known_major)? {
            return Ok(Begun::Prepared(devices));
        }
        let channel = self.channel.as_ref().ok().copied();
        guard.check(claims, &self.uid, &self.request, channel)?;
        let (channel, major) = (self.channel?, self.allowed?);
        if let Some(daemon) = &self.daemon {
            daemon.require_ready()?;
        }
        let uid = self.uid.as_str();
        let now = match claims.get(uid) {
            Some(record) => fences.now(uid, record, self.now),
            None => self.now.wall,
        };
        claims.start(&self.claim, &self.status, now)?;
        Ok(Begun::Started(channel, major))
    }
}

/// The answer if the claim holds its device already, after its spec is asserted.
// req: KUBELET-32
pub(crate) fn answer_if_prepared(
    view: &View<DeviceGroup>,
    specs: &ClaimSpecs,
    uid: &ClaimUid,
    major: Option<Major>,
) -> Result<Option<Vec<KubeletDevice>>, PrepareError> {
    let steps = steps(view, uid.as_str(), Transaction::BeginPrepare);
    match view.get(uid.as_str()) {
        Some(record) if *steps == [Step::WriteSpec] => {
            rewrite(specs, uid, record, major)?;
            Ok(Some(kubelet_devices(record)))
        }
        _ => Ok(None),
    }
}
