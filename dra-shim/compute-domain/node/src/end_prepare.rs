//! The last transaction of a Prepare. It decides which claim gets the device.

use dra_checkpoint::{ClaimStatus, Claims, KubeletDevice, View};
use imex_cdi::{ChannelId, ClaimSpecs, ClaimUid, Major};

use crate::device_group::DeviceGroup;
use crate::error::PrepareError;
use crate::holder_policy::HolderPolicy;
use crate::imex_daemon::NeededDaemon;
use crate::lifecycle::{Step, Transaction};
use crate::node_claims::steps;
use crate::request::ChannelRequest;
use crate::spec::{ensure, kubelet_devices, rewrite};

/// The transaction, with all data that it may write.
pub(crate) struct EndPrepare {
    pub(crate) uid: ClaimUid,
    pub(crate) status: ClaimStatus,
    pub(crate) request: ChannelRequest,
    pub(crate) channel: ChannelId,
    /// `None`: the claim goes without a device.
    pub(crate) major: Option<Major>,
    /// The claim's requirements on the IMEX daemon.
    pub(crate) daemon: Option<NeededDaemon>,
    pub(crate) group: DeviceGroup,
}

// === impl EndPrepare ===

impl EndPrepare {
    // req: NODE-24
    pub(crate) fn run(
        self,
        claims: &mut Claims<DeviceGroup>,
        specs: &ClaimSpecs,
        holder_policy: HolderPolicy,
    ) -> Result<Vec<KubeletDevice>, PrepareError> {
        let uid = &self.uid;
        let (transaction, lost) = self.decide(claims, holder_policy);
        for step in steps(claims, uid.as_str(), transaction) {
            match step {
                Step::WriteSpec => self.write_spec(claims, specs)?,
                Step::RemoveSpec => remove(specs, uid)?,
                Step::Record(_) => {
                    claims.complete(uid.as_str(), &self.status, vec![self.group.clone()])?;
                }
            }
        }
        match claims.get(uid.as_str()) {
            Some(record) if record.is_completed() => Ok(kubelet_devices(record)),
            _ => Err(lost.unwrap_or(PrepareError::Aborted)),
        }
    }

    /// Writes the spec of the record. If the record is Completed, that may be for another claim status.
    fn write_spec(&self, view: &View<DeviceGroup>, specs: &ClaimSpecs) -> Result<(), PrepareError> {
        let record = view.get(self.uid.as_str());
        if let Some(record) = record.filter(|record| record.is_completed()) {
            return rewrite(specs, &self.uid, record, self.major).map(drop);
        }
        match self.major {
            Some(major) => ensure(specs, &self.uid, self.channel, major).map(drop),
            // Left by an earlier attempt, when the node had a clique.
            None => remove(specs, &self.uid),
        }
    }

    /// Chooses the transaction. Returns the error if the claim does not get the device.
    // req: NODE-18
    fn decide(
        &self,
        view: &View<DeviceGroup>,
        holder_policy: HolderPolicy,
    ) -> (Transaction, Option<PrepareError>) {
        let record = view.get(self.uid.as_str());
        if record.is_some_and(|record| record.status != self.status) {
            let error = PrepareError::Aborted;
            return (Transaction::EndPrepareSuperseded, Some(error));
        }
        let channel = Some(self.channel);
        let free = holder_policy.check(view, &self.uid, &self.request, channel);
        match free.and_then(|()| self.check_daemon()) {
            Ok(()) => (Transaction::EndPrepare, None),
            Err(error) => (Transaction::EndPrepareRefused, Some(error)),
        }
    }

    /// Read under the lock, so that no record becomes Completed after
    /// [`NodeClaims::drained`](crate::NodeClaims::drained) has reported the node as drained.
    fn check_daemon(&self) -> Result<(), PrepareError> {
        match &self.daemon {
            Some(daemon) => Ok(daemon.require_ready()?),
            None => Ok(()),
        }
    }
}

fn remove(specs: &ClaimSpecs, uid: &ClaimUid) -> Result<(), PrepareError> {
    let removed = specs.remove(uid);
    removed
        .map_err(|source| PrepareError::Cdi { source })
        .map(drop)
}
