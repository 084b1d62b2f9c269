//! What the calls of every driver have in common.

use dra_checkpoint::KubeletDevice;
use dra_kubelet::{ClaimError, Context, PreparedDevice};

/// Runs `operation` on a thread that may block, and converts its error.
///
/// # Errors
/// The error of `operation`, or a retry if the call was cancelled before it began.
pub async fn blocking<T, E>(
    context: &Context,
    operation: impl FnOnce() -> Result<T, E> + Send + 'static,
    to_claim_error: impl FnOnce(&E) -> ClaimError + Send + 'static,
) -> Result<T, ClaimError>
where
    T: Send + 'static,
    E: 'static,
{
    context
        .run_blocking(move || operation().map_err(|error| to_claim_error(&error)))
        .await
}

/// A device of a record, in the answer to kubelet.
pub fn to_device(device: KubeletDevice) -> PreparedDevice {
    PreparedDevice {
        requests: device.requests.unwrap_or_default(),
        pool: device.pool_name,
        device: device.device_name,
        cdi_ids: device.cdi_device_ids.unwrap_or_default(),
        share_id: device.share_id,
    }
}
