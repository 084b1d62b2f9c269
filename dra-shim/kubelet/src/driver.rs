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
///
/// # Devices that several claims share
///
/// The scheduler allocates a device with `allowMultipleAllocations` to several claims, as far
/// as its capacity allows. The driver publishes:
///
/// ```
/// use std::collections::BTreeMap;
///
/// use k8s_openapi::api::resource::v1::{Device, DeviceCapacity};
/// use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
///
/// let slots = DeviceCapacity { value: Quantity("8".into()), request_policy: None };
/// let lamp = Device {
///     name: "lamp-0".into(),
///     allow_multiple_allocations: Some(true),
///     capacity: Some(BTreeMap::from([("slots".to_owned(), slots)])),
///     ..Default::default()
/// };
/// # assert_eq!(serde_json::to_value(lamp).unwrap()["capacity"]["slots"]["value"], "8");
/// ```
///
/// This claim requests one slot, or a whole device where devices have no slots:
///
/// ```yaml
/// apiVersion: resource.k8s.io/v1
/// kind: ResourceClaim
/// metadata: {name: lamp}
/// spec:
///   devices:
///     requests:
///     - name: lamp
///       firstAvailable:
///       - {name: share, deviceClassName: lamps.example.com, capacity: {requests: {slots: "1"}}}
///       - {name: whole, deviceClassName: lamps.example.com}
/// ```
///
/// Each share is an allocation result with a share id and gets its own `PreparedDevice`. Two
/// shares of one device in one claim differ in nothing else: prepare the device once, and return
/// the same CDI id for both.
///
/// ```
/// use dra_kubelet::{Claim, ClaimRef, PreparedDevice};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let json = r#"{"metadata": {"uid": "u"}, "status": {"allocation": {"devices": {"results": [
///     {"request": "lamp/share", "driver": "lamps.example.com", "pool": "node-1", "device": "lamp-0",
///      "shareID": "c0ffee00-1234-4567-89ab-0123456789ab", "consumedCapacity": {"slots": "1"}}]}}}}"#;
/// let id = ClaimRef { namespace: "ns".into(), name: "lamp".into(), uid: "u".into() };
/// let claim = Claim::parse(json, &id, "lamps.example.com")?;
/// let result = &claim.results[0];
/// assert!(result.consumed_capacity().eq([("slots", "1")]));
/// let device = PreparedDevice::from_result(result, vec!["lamps.example.com/lamp=u-lamp-0".into()]);
/// assert_eq!(device.requests, ["lamp"]);
/// assert_eq!(device.share_id.as_deref(), result.share_id());
/// # Ok(())
/// # }
/// ```
///
/// * A claim that names no amount takes the whole capacity, unless a `request_policy` has a
///   default. A claim may request the amount `"0"`, unless a `request_policy` forbids it: a
///   driver with a hard limit counts the claims itself, on disk.
/// * Other claims may use the device while one of them is prepared or unprepared. What the
///   driver does for the device itself ends with the last of them.
/// * If [`Publication::Published`](crate::Publication::Published) lists
///   `allowMultipleAllocations` among `dropped`, the device is published for one claim at a time
///   and results have no share id. The driver should report that.
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
