//! What a driver author implements: [`Driver`], and the device that it returns.

use std::future::Future;

use crate::claim::Claim;
use crate::context::Context;
use crate::error::ClaimError;
use dra_claim::{ClaimRef, DeviceResult};

/// A DRA driver's node side: makes a claim's devices usable on this node, and
/// reverts that.
///
/// # Guarantees of the library
///
/// * **Order.** Attempts at one claim UID never overlap within one
///   [`Plugin`](crate::Plugin): `prepare` and `unprepare` of a claim run strictly one
///   after another, whatever kubelet does. Attempts at different claims run
///   concurrently, 32 of each method at most: a method must not assume that it is
///   alone. Another plugin, in this process or another, is not coordinated with.
/// * **Names.** Namespace, name and UID are what the API server allows: fit for URLs,
///   and the UID for a file's name. A call with more than 1024 claims is refused.
/// * **Completion.** A future that was started is polled to its end. A call that
///   kubelet gave up on, or that its restart cut off, does not drop it; a repeated
///   call joins it. Only a runtime that is dropped drops it midway.
/// * **Retries.** [`ErrorClass::Retry`](crate::ErrorClass::Retry) errors are retried
///   inside the call, with back-off, until shortly before kubelet's deadline. A driver
///   contains no retry loop.
/// * **Panics.** A panic, also one while a future is created, becomes the error of
///   that claim, which is not retried within the call and says no more than that the
///   driver failed: the panic is in the log. Other claims are not affected.
///
/// # Obligations of the driver
///
/// * **Threads.** Both methods run on tokio's worker threads. Blocking work (file
///   system, ioctl, a C library) goes through [`Context::run_blocking`]; anything
///   that blocks a worker stalls other claims and the health stream.
/// * **Time.** Both methods return by [`Context::deadline`], and `prepare` soon after
///   [`Context::cancellation`] fires. One that does not is not interrupted: kubelet
///   gets an error in time, and whatever is to follow for the claim waits; it counts
///   as one of the 32 until it returns.
/// * **Idempotence.** Each method may be called any number of times for one claim,
///   in any order, also after a reboot: see the methods.
/// * **State.** During a rolling update two processes serve one node, and kubelet may
///   call either: what must be remembered is on disk, changed under a file lock.
pub trait Driver: Send + Sync + 'static {
    /// Makes the claim's devices usable and returns them; an empty list is valid.
    ///
    /// **Called** once per attempt: first for a `NodePrepareResources` call that has
    /// the claim, again after each `Retry` error. kubelet calls it before a pod's
    /// containers start; again, with the same UID, when another driver of the claim
    /// failed, for the first new pod after a restart of kubelet, and after a reboot.
    ///
    /// **May assume** that `claim` was read from the API server for a call that is
    /// still waiting, that its UID is the one that kubelet means, and that it is
    /// allocated. `claim.results` and `claim.configs` are this driver's own; the
    /// opaque parameters have not been validated by anybody.
    ///
    /// **Must** return the same devices with the same CDI ids on every call for one
    /// UID, and restore what has gone missing on disk (`/run` is empty after a
    /// reboot). An error, a cancellation and a panic must leave nothing behind that
    /// `unprepare` cannot find by the claim's UID.
    ///
    /// # Errors
    ///
    /// [`ErrorClass::Retry`](crate::ErrorClass::Retry) for what may succeed later in
    /// the same call, else `Permanent`. A failed call costs the pod at least a minute.
    fn prepare(
        &self,
        context: &Context,
        claim: &Claim,
    ) -> impl Future<Output = Result<Vec<PreparedDevice>, ClaimError>> + Send;

    /// Reverts whatever `prepare` did for this UID, and returns when the devices are
    /// really free: after success the scheduler may allocate them to another claim
    /// at once.
    ///
    /// **Called** once per attempt, after the claim's last pod on this node has ended,
    /// and again after a failure: within the call after each `Retry` error, and by
    /// kubelet later. A `prepare` of the claim that is still running is cancelled and
    /// awaited first. It is also called for claims that were never prepared here.
    ///
    /// **May assume** nothing about the API server: the claim object may be gone, and
    /// only `claim.uid` identifies what to revert. A later claim may have the same
    /// name.
    ///
    /// **Must** succeed for a UID that is unknown or already unprepared.
    ///
    /// # Errors
    ///
    /// As [`Driver::prepare`]. The pod stays in `Terminating` until it succeeds.
    fn unprepare(
        &self,
        context: &Context,
        claim: &ClaimRef,
    ) -> impl Future<Output = Result<(), ClaimError>> + Send;
}

/// One prepared device of a claim: one per allocation result, so a device that
/// several shares of a claim use appears once per share.
///
/// kubelet does not compare the devices with the results. The containers of a result for
/// which the driver returns no device start without it, and no error says so; the library logs
/// a warning, unless the list is empty, as that of a driver without CDI devices may be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreparedDevice {
    /// The claim's requests that this device serves. kubelet gets their base names
    /// ([`DeviceResult::base_request`]). Empty means every request.
    pub requests: Vec<String>,
    /// The pool of the allocation result.
    pub pool: String,
    /// The device of the allocation result.
    pub device: String,
    /// Fully qualified CDI ids (`vendor/class=name`) that the runtime injects.
    /// They must be the same on every call for the same claim.
    pub cdi_ids: Vec<String>,
    /// The share id of the allocation result, if it has one.
    pub share_id: Option<String>,
}

/// How all attempts at a claim ended. Unprepare returns no devices.
pub(crate) type Outcome = Result<Vec<PreparedDevice>, ClaimError>;

// === impl PreparedDevice ===

impl PreparedDevice {
    /// The device of one allocation result, with the CDI ids for its containers.
    pub fn from_result(result: &DeviceResult, cdi_ids: Vec<String>) -> Self {
        Self {
            requests: vec![result.base_request().to_owned()],
            pool: result.pool().to_owned(),
            device: result.device().to_owned(),
            cdi_ids,
            share_id: result.share_id().map(str::to_owned),
        }
    }
}
