//! kubelet's limit on a message: what is larger fails as a whole, and with it every
//! claim of a call, or the health of every device.

use std::collections::BTreeMap;

use prost::Message;

use crate::driver::ClaimError;
use crate::proto::health::{DeviceHealth, NodeWatchResourcesResponse};
use crate::text::cut;
use crate::work::Outcome;

/// What gRPC for Go receives unless told otherwise, which kubelet does not.
const MAX: usize = 4 << 20;
/// An entry of a list or map costs at most this beside its content: two tags, two
/// lengths, and a tag and a length around both.
const ENTRY: usize = 20;

/// Fails the largest answers until the rest are small enough, and says how many.
pub(crate) fn fit_answers<A>(answers: &mut BTreeMap<String, A>) -> usize
where
    A: From<Outcome> + Message,
{
    let sizes = answers.iter().map(|(uid, it)| size(uid, it));
    let mut total: usize = sizes.sum();
    let mut failed = 0;
    while total > MAX {
        let largest = answers.iter_mut().max_by_key(|(uid, it)| size(uid, *it));
        let Some((uid, answer)) = largest else { break };
        let before = size(uid, answer);
        tracing::warn!(uid, bytes = before, "an answer exceeds kubelet's limit");
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
    uid.len() + answer.encoded_len() + ENTRY
}

fn too_large(bytes: usize) -> ClaimError {
    ClaimError::permanent(format_args!(
        "the driver's answer has {bytes} bytes, and kubelet takes {MAX} for all claims of a call"
    ))
    .with_code("answer-too-large")
}

/// What a list of devices' health had to lose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cut {
    /// All messages have at most so many bytes.
    pub(crate) messages: Option<usize>,
    /// So many devices at the end of the list are left out.
    pub(crate) devices: usize,
}

/// Shortens the messages, all alike; where even the names are too much, the list.
pub(crate) fn fit_health(report: &mut NodeWatchResourcesResponse) -> Cut {
    if report.encoded_len() <= MAX {
        return Cut::default();
    }
    let bare = |device: &DeviceHealth| device.encoded_len() - device.message.len() + ENTRY;
    let names: usize = report.devices.iter().map(bare).sum();
    let message = MAX.saturating_sub(names) / report.devices.len().max(1);
    for device in &mut report.devices {
        let end = cut(&device.message, message).len();
        device.message.truncate(end);
    }
    let before = report.devices.len();
    let mut total = report.encoded_len();
    while total > MAX
        && let Some(last) = report.devices.pop()
    {
        let bytes = last.encoded_len();
        total -= 1 + prost::length_delimiter_len(bytes) + bytes;
    }
    Cut {
        messages: Some(message),
        devices: before - report.devices.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::Device;
    use crate::proto::health::DeviceIdentifier;
    use crate::proto::v1::NodePrepareResourceResponse as Answer;

    fn mk_answer(bytes: usize) -> Answer {
        Answer::from(Ok(vec![Device {
            device: "x".repeat(bytes),
            ..Device::default()
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
    fn health_of_many_devices_keeps_its_verdicts_with_shorter_messages() {
        let mut report = mk_report(4200, 8, 1024);
        let lost = fit_health(&mut report);
        assert_eq!((lost.devices, report.devices.len()), (0, 4200));
        let len = report.devices[0].message.len();
        assert!(len > 900 && lost.messages >= Some(len), "{lost:?} {len}");
        assert!(report.encoded_len() <= MAX);
        assert_eq!(fit_health(&mut report), Cut::default());
    }

    #[test]
    fn names_that_are_too_many_are_cut_at_the_end() {
        let mut report = mk_report(50_000, 100, 10);
        let lost = fit_health(&mut report);
        assert!(report.encoded_len() <= MAX && report.encoded_len() > MAX - 200);
        assert_eq!(lost.devices, 50_000 - report.devices.len());
    }
}
