//! The first transaction of a Prepare. It runs under the lock, so it never refuses
//! or answers based on stale records.

use dra_checkpoint::{ClaimRef, ClaimStatus, Claims, KubeletDevice, View};
use imex_cdi::{ChannelId, ClaimSpecs, ClaimUid, Major};

use crate::device_group::DeviceGroup;
use crate::error::PrepareError;
use crate::holder_policy::HolderPolicy;
use crate::imex_daemon::NeededDaemon;
use crate::lifecycle::{Step, Transaction};
use crate::moment::{FenceClock, Moment};
use crate::node_claims::steps;
use crate::request::ChannelRequest;
use crate::spec::{kubelet_devices, rewrite};

/// The transaction, with all facts that it depends on.
pub(crate) struct BeginPrepare {
    pub(crate) uid: ClaimUid,
    pub(crate) claim: ClaimRef,
    pub(crate) status: ClaimStatus,
    pub(crate) request: ChannelRequest,
    /// For a claim that is already prepared.
    pub(crate) known_major: Option<Major>,
    /// For any other: the channel that it opens, or why the domain does not allow it.
    pub(crate) channel: Result<ChannelId, PrepareError>,
    /// The major, or why the hardware does not allow the claim; `None`: the claim gets no device.
    pub(crate) allowed: Result<Option<Major>, PrepareError>,
    /// The claim's requirements on the IMEX daemon.
    pub(crate) daemon: Option<NeededDaemon>,
    pub(crate) now: Moment,
}

/// The next step of a Prepare.
#[derive(Debug)]
pub(crate) enum BeginOutcome {
    /// None: the claim was already prepared, and its spec is in place.
    Prepared(Vec<KubeletDevice>),
    /// The record is Started. The device will be this channel with this major; without a major,
    /// the claim gets no device.
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
        holder_policy: HolderPolicy,
    ) -> Result<BeginOutcome, PrepareError> {
        if let Some(devices) = answer_if_prepared(claims, specs, &self.uid, self.known_major)? {
            return Ok(BeginOutcome::Prepared(devices));
        }
        let channel = self.channel.as_ref().ok().copied();
        holder_policy.check(claims, &self.uid, &self.request, channel)?;
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
        Ok(BeginOutcome::Started(channel, major))
    }
}

/// The answer if the claim already holds its device. Rewrites its spec if necessary.
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
