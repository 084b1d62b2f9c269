//! What a driver adds to the life of its claims.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use dra_checkpoint::{
    ClaimRecord, ClaimRef, ClaimStatus, KubeletDevice, Payload, StoreError, View,
};
use imex_cdi::{ClaimSpec, ClaimUid, DeviceName};

use crate::error::{PrepareError, UnprepareError};

/// The devices of one driver: which claim may have which device, and the CDI spec of a claim.
///
/// [`NodeClaims`](crate::NodeClaims) calls all methods but those of [`Changed`] hardware on the checkpoint's thread,
/// most of them under its lock: they answer from memory, or read a small file at most.
pub trait Devices: fmt::Debug + Send + Sync + Sized + 'static {
    /// One element of `preparedDevices` of a Completed record.
    type Group: Payload + Clone + fmt::Debug;
    /// What specs depend on besides records, such as a device major. Looked up by the caller.
    type Facts: Clone + fmt::Debug + Send + 'static;
    /// What one Prepare asks for, with all facts that the caller has looked up for it.
    type Request: fmt::Debug + Send + 'static;
    /// A request that was allowed: what the claim's spec and record will contain.
    type Plan: fmt::Debug + Send + 'static;
    /// Why a claim is not prepared.
    type Error: std::error::Error + From<PrepareError> + Send + 'static;

    /// Decides whether the claim may be prepared. Called under the lock, before anything is written.
    ///
    /// # Errors
    /// Another claim holds a device, or the facts do not allow the request.
    fn plan(
        &self,
        view: &View<Self::Group>,
        claim: &ClaimUid,
        request: Self::Request,
    ) -> Result<Self::Plan, Self::Error>;

    /// Decides again, in the commit that completes the record. Of two claims that want one device,
    /// the second one fails here.
    ///
    /// # Errors
    /// As [`plan`](Self::plan).
    fn check(
        &self,
        view: &View<Self::Group>,
        claim: &ClaimUid,
        plan: &Self::Plan,
    ) -> Result<(), Self::Error>;

    /// The spec of a planned claim. `None`: the claim gets no CDI device.
    fn spec(&self, plan: &Self::Plan) -> Option<ClaimSpec>;

    /// The devices of the record. `ids` are the CDI devices of [`spec`](Self::spec), in its order.
    fn groups(&self, plan: &Self::Plan, ids: Vec<String>) -> Vec<Self::Group>;

    /// The group's devices, as in the answer to kubelet.
    fn kubelet_devices(group: &Self::Group) -> impl Iterator<Item = &KubeletDevice>;

    /// Whether this driver can write the spec of a Completed record if it has all facts. Not of a
    /// record of another driver's mode, or of one without CDI devices.
    fn has_own_spec(record: &ClaimRecord<Self::Group>) -> bool;

    /// The spec of a Completed record. `None`: it has no CDI device.
    ///
    /// # Errors
    /// Why it cannot be written now. An existing spec is left as it is, and that is no failure.
    fn recorded_spec(
        &self,
        record: &ClaimRecord<Self::Group>,
        facts: &Self::Facts,
    ) -> Result<Option<ClaimSpec>, Self::Error>;

    /// The devices of a claim that was prepared here but lost its record. `status` has an allocation on
    /// this node. `found` are the devices in the text of its spec: empty if that is damaged, too. `id` is
    /// the CDI id of a device.
    ///
    /// The record gets what this returns: [`NodeClaims::rebuild`](crate::NodeClaims::rebuild) compares no
    /// claims, and does not call [`check`](Self::check). Of the two implementors, `ImexChannels` prefers
    /// `found`, because a node's device stands for the channel of the claim's ComputeDomain. If `found` has no
    /// channel, `status` decides, or the channel is [`Unknown`](Restored::Unknown). `Gpus` ignores
    /// `found`: it looks up the devices that `status` names among the node's GPUs.
    fn restored(
        &self,
        status: &ClaimStatus,
        facts: &Self::Facts,
        found: &BTreeSet<DeviceName>,
        id: &dyn Fn(&DeviceName) -> String,
    ) -> Restored<Self::Group>;

    /// Changes hardware as the plan asks: between the Started record and the spec, without the checkpoint's lock.
    /// May be slow. Every attempt of a Prepare calls it, and the one before may have been interrupted anywhere.
    /// `view` reads the records, with the changes of other processes. `None`: the claim changes nothing. Only `Gpus`
    /// changes hardware.
    ///
    /// # Errors
    /// Why the hardware cannot be changed. What is changed already is restored by
    /// [`NodeClaims::unprepare`](crate::NodeClaims::unprepare).
    fn change(
        &self,
        _view: &dyn Fn() -> Result<Arc<View<Self::Group>>, StoreError>,
        _claim: &ClaimRef,
        _plan: &Self::Plan,
    ) -> Result<Option<ChangedHardware<Self::Group>>, Self::Error> {
        Ok(None)
    }

    /// The hardware that the claim has changed, or may have changed before a crash. `None`: none.
    ///
    /// # Errors
    /// Retry.
    fn changed(
        &self,
        _view: &View<Self::Group>,
        _uid: &str,
    ) -> Result<Option<ChangedHardware<Self::Group>>, UnprepareError> {
        Ok(None)
    }

    /// The claims with [`changed`](Self::changed) hardware, with or without a record.
    fn changed_claims(&self) -> Vec<ClaimRef> {
        Vec::new()
    }
}

/// The changed hardware of a claim.
pub type ChangedHardware<G> = Box<dyn Changed<G>>;

/// Hardware that a claim has changed. While this value exists, no other claim changes the same hardware.
pub trait Changed<G: Payload> {
    /// Restores what no other claim needs: after the claim's spec was removed, before its record is. What cannot
    /// be restored now is not forgotten, and is no error: a broken device must not keep a claim from its end.
    ///
    /// # Errors
    /// Nothing is noted durably: retry.
    fn restore(&mut self, view: &View<G>) -> Result<(), UnprepareError>;

    /// Forgets what is restored: after the claim's record was removed.
    ///
    /// # Errors
    /// Retry.
    fn forget(&mut self, view: &View<G>) -> Result<(), UnprepareError>;
}

/// The devices of a claim that lost its record.
#[derive(Debug)]
pub enum Restored<G> {
    /// Its containers have these.
    Devices(Vec<G>),
    /// They are unknown, and the claim must not get others from now on: its spec is removed.
    Unknown,
    /// The claim is not of this driver's kind: its spec stays.
    Foreign,
    /// The facts do not suffice yet, for this reason: the rebuild is repeated.
    NotYet(String),
}
