//! The [`Driver`] trait, which a driver author implements, and [`PreparedDevice`], which it returns.

use std::future::Future;

use crate::claim::Claim;
use crate::context::Context;
use crate::error::ClaimError;
use dra_claim::{ClaimRef, DeviceResult};

/// The node side of a DRA driver: prepares and unprepares a claim's devices on this node.
///
/// # Guarantees of the library
///
/// * **Order.** Attempts at one claim UID never overlap within one
///   [`Plugin`](crate::Plugin): `prepare` and `unprepare` of a claim run strictly one
///   after another, whatever kubelet does. Attempts at different claims run concurrently,
///   at most 32 of each method. Attempts of another plugin, in this process or another,
///   are not coordinated.
/// * **Names.** Namespace, name and UID are valid for the API server, so they are safe in
///   URLs, and the UID is safe in file names. Calls with more than 1024 claims are refused.
/// * **Completion.** A future that was started is polled to its end, even if kubelet's call
///   times out or kubelet restarts. A repeated call joins it. Only dropping the runtime
///   drops the future midway.
/// * **Retries.** [`ErrorClass::Retry`](crate::ErrorClass::Retry) errors are retried
///   inside the call, with back-off, until shortly before kubelet's deadline. A driver
///   needs no retry loop.
/// * **Panics.** A panic, also one during the creation of the future, becomes an error of
///   that claim and is not retried within the call. The error says only that the driver
///   failed; the panic message is in the log. Other claims are not affected.
///
/// # Obligations of the driver
///
/// * **Threads.** Both methods run on tokio's worker threads. Blocking work (file
///   system, ioctl, a C library) goes through [`Context::run_blocking`]. Blocking a
///   worker thread stalls other claims and the health stream.
/// * **Time.** Both methods return by [`Context::deadline`], and `prepare` soon after
///   [`Context::cancellation`] fires. A late method is not interrupted: kubelet gets an
///   error in time, later operations on the claim wait, and the attempt counts as one of
///   the 32 until it returns.
/// * **Idempotence.** Each method may be called any number of times for one claim,
///   in any order, also after a reboot: see the methods.
/// * **State.** During a rolling update two processes serve one node, and kubelet may
///   call either. State must be on disk, and changed under a file lock.
pub trait Driver: Send + Sync + 'static {
    /// Makes the claim's devices usable and returns them; an empty list is valid.
    ///
    /// **Called** once per attempt: first for a `NodePrepareResources` call with the
    /// claim, and again after each `Retry` error. kubelet makes the call before a pod's
    /// containers start. It repeats the call for the same UID when another driver of the
    /// claim failed, for the first new pod after a restart of kubelet, and after a reboot.
    ///
    /// **May assume** that `claim` was read from the API server for a call that is still
    /// waiting, has the UID that kubelet sent, and is allocated. `claim.results` and
    /// `claim.configs` are this driver's own. The opaque parameters are not validated.
    ///
    /// **Must** return the same devices with the same CDI ids on every call for one UID,
    /// and restore files that are missing (`/run` is empty after a reboot). After an
    /// error, a cancellation or a panic, `unprepare` must be able to find all leftovers
    /// with only the claim's UID.
    ///
    /// # Errors
    ///
    /// [`ErrorClass::Retry`](crate::ErrorClass::Retry) if a later attempt in the same call
    /// may succeed, otherwise `Permanent`. A failed call delays the pod by at least a minute.
    fn prepare(
        &self,
        context: &Context,
        claim: &Claim,
    ) -> impl Future<Output = Result<Vec<PreparedDevice>, ClaimError>> + Send;

    /// Reverts everything that `prepare` did for this UID, and returns when the devices are
    /// free: the scheduler may then allocate them to another claim at once.
    ///
    /// **Called** once per attempt, after the claim's last pod on this node has ended. After
    /// a `Retry` error the library calls it again within the call; after a failed call
    /// kubelet repeats the call later. A running `prepare` of the claim is cancelled and
    /// awaited first. It is also called for claims that were never prepared here.
    ///
    /// **May assume** nothing about the API server: the claim object may already be deleted,
    /// and a later claim may have the same name. Only `claim.uid` identifies what to revert.
    ///
    /// **Must** succeed for a UID that is unknown or already unprepared.
    ///
    /// # Errors
    ///
    /// As [`Driver::prepare`]. The pod remains in `Terminating` until this succeeds.
    fn unprepare(
        &self,
        context: &Context,
        claim: &ClaimRef,
    ) -> impl Future<Output = Result<(), ClaimError>> + Send;
}

/// One prepared device of a claim, for one allocation result: a device with several shares
/// in a claim appears once per share.
///
/// kubelet does not compare the devices with the results. If the driver returns no device for
/// a result, the containers start without it and kubelet reports no error. The library logs a
/// warning, unless the list is empty: a driver without CDI devices may return an empty list.
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
/// shares of one device in one claim differ only in the share id: prepare the device once, and
/// return the same CDI id for both.
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
/// * A claim without an amount takes the whole capacity, unless a `request_policy` has a
///   default. A claim may request the amount `"0"`, unless a `request_policy` forbids it, so
///   a driver with a hard limit must count the claims itself, on disk.
/// * Other claims may use the device while a claim is prepared or unprepared. The driver
///   releases the device itself only with its last claim.
/// * If [`Publication::Published`](crate::Publication::Published) lists
///   `allowMultipleAllocations` in `dropped`, only one claim at a time gets the device, and
///   results have no share id. The driver should report that.
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
