//! kubelet's limit on the size of a message. If a message is larger, all claims of the call
//! fail, or the health of all devices is lost.

use std::collections::BTreeMap;

use dra_common::truncated;
use prost::Message;

use crate::driver::Outcome;
use crate::error::ClaimError;
use crate::proto::health::{DeviceHealth, NodeWatchResourcesResponse};

/// kubelet's limit: the default of gRPC for Go.
const MAX_BYTES: usize = 4 << 20;
/// Maximum overhead of an entry of a list or map: two tags, two lengths, and a tag and a
/// length around both.
const ENTRY_OVERHEAD: usize = 20;

/// The truncation of a health report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Truncation {
    /// The length to which messages were truncated, if they were.
    pub(super) messages: Option<usize>,
    /// The number of devices omitted at the end of the list.
    pub(super) devices: usize,
}

/// Replaces the largest answers with errors until the message is small enough. Returns the
/// number of replaced answers.
pub(super) fn fit_answers<A>(answers: &mut BTreeMap<String, A>) -> usize
where
    A: From<Outcome> + Message,
{
    let sizes = answers.iter().map(|(uid, answer)| size(uid, answer));
    let mut total: usize = sizes.sum();
    let mut failed = 0;
    while total > MAX_BYTES {
        let largest = answers
            .iter_mut()
            .max_by_key(|(uid, answer)| size(uid, *answer));
        let Some((uid, answer)) = largest else { break };
        let before = size(uid, answer);
        tracing::warn!(
            uid,
            bytes = before,
            "the response for the claim exceeds kubelet's size limit; kubelet gets an error for this claim instead"
        );
        *answer = A::from(Err(too_large(before)));
        let after = size(uid, answer);
        if after >= before {
            break; // only errors are left
        }
        total = total - before + after;
        failed += 1;
    }
    failed
}

fn size(uid: &str, answer: &impl Message) -> usize {
    uid.len() + answer.encoded_len() + ENTRY_OVERHEAD
}

fn too_large(bytes: usize) -> ClaimError {
    ClaimError::permanent(format_args!(
        "the driver's response for the claim has {bytes} bytes; kubelet accepts at most {MAX_BYTES} for all claims of a call"
    ))
    .with_code("answer-too-large")
}

/// Truncates all messages to one length. If the names alone are too large, also truncates the
/// list.
pub(super) fn fit_health(report: &mut NodeWatchResourcesResponse) -> Truncation {
    if report.encoded_len() <= MAX_BYTES {
        return Truncation::default();
    }
    let bare = |device: &DeviceHealth| device.encoded_len() - device.message.len() + ENTRY_OVERHEAD;
    let names: usize = report.devices.iter().map(bare).sum();
    let message = MAX_BYTES.saturating_sub(names) / report.devices.len().max(1);
    for device in &mut report.devices {
        let end = truncated(&device.message, message).len();
        device.message.truncate(end);
    }
    let before = report.devices.len();
    let mut total = report.encoded_len();
    while total > MAX_BYTES
        && let Some(last) = report.devices.pop()
    {
        let bytes = last.encoded_len();
        total -= 1 + prost::length_delimiter_len(bytes) + bytes;
    }
    Truncation {
        messages: Some(message),
        devices: before - report.devices.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::PreparedDevice;
    use crate::proto::health::DeviceIdentifier;
    use crate::proto::v1::NodePrepareResourceResponse as Answer;

    fn mk_answer(bytes: usize) -> Answer {
        Answer::from(Ok(vec![PreparedDevice {
            device: "x".repeat(bytes),
            ..PreparedDevice::default()
        }]))
    }

    fn mk_report(devices: usize, name: usize, message: usize) -> NodeWatchResourcesResponse {
        let device = DeviceHealth {
            device: Some(DeviceIdentifier {
                pool_name: String::new(),
                device_name: "x".repeat(name),
            }),
            message: "ä".repeat(message / 2),
            ..DeviceHealth::default()
        };
        NodeWatchResourcesResponse {
            devices: vec![device; devices],
        }
    }

    #[test]
    fn an_answer_that_is_too_large_fails_alone() {
        let sizes = [("a", 1 << 10), ("b", 5 << 20), ("c", 3 << 20)];
        let mut answers: BTreeMap<String, Answer> = sizes
            .map(|(uid, bytes)| (uid.to_owned(), mk_answer(bytes)))
            .into();
        assert_eq!(fit_answers(&mut answers), 1);
        assert!(
            answers["b"].error.contains("bytes"),
            "{:?}",
            answers["b"].error
        );
        assert_eq!(
            (answers["a"].devices.len(), answers["c"].devices.len()),
            (1, 1)
        );
        assert_eq!(fit_answers(&mut answers), 0);
    }

    #[test]
    fn health_of_many_devices_keeps_all_states_with_shorter_messages() {
        let mut report = mk_report(4200, 8, 1024);
        let truncation = fit_health(&mut report);
        assert_eq!((truncation.devices, report.devices.len()), (0, 4200));
        let len = report.devices[0].message.len();
        assert!(
            len > 900 && truncation.messages >= Some(len),
            "{truncation:?} {len}"
        );
        assert!(report.encoded_len() <= MAX_BYTES);
        assert_eq!(fit_health(&mut report), Truncation::default());
    }

    #[test]
    fn a_list_of_too_many_names_is_truncated() {
        let mut report = mk_report(50_000, 100, 10);
        let truncation = fit_health(&mut report);
        assert!(report.encoded_len() <= MAX_BYTES && report.encoded_len() > MAX_BYTES - 200);
        assert_eq!(truncation.devices, 50_000 - report.devices.len());
    }
}
