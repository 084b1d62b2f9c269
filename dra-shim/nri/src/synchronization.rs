//! The pods and containers that exist, which the runtime may send in several parts.

use prost::Message as _;

use crate::api::{Container, PodSandbox};

/// Pods and containers of one synchronization. A node has some hundreds.
const MAX_OBJECTS: usize = 65_536;
/// Bytes of one synchronization: sixteen messages of the largest size.
const MAX_BYTES: usize = 64 << 20;

/// The parts that have come so far.
#[derive(Debug, Default)]
pub(crate) struct Synchronization {
    pub(crate) pods: Vec<PodSandbox>,
    pub(crate) containers: Vec<Container>,
    bytes: usize,
}

/// A part. The objects are decoded after they are counted: an empty one takes two bytes
/// in the message, and hundreds in memory.
#[derive(Clone, PartialEq, prost::Message)]
struct Part {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pods: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    containers: Vec<Vec<u8>>,
    /// Another part follows.
    #[prost(bool, tag = "3")]
    more: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PartError {
    #[error("the request cannot be decoded")]
    Decode(#[from] prost::DecodeError),
    #[error("more than {MAX_OBJECTS} pods and containers, or {MAX_BYTES} bytes of them")]
    TooMuch,
}

// === impl Synchronization ===

impl Synchronization {
    /// Adds a part, and returns whether another one follows.
    // req: NRI-3
    pub(crate) fn add(&mut self, part: &[u8]) -> Result<bool, PartError> {
        self.bytes += part.len();
        if self.bytes > MAX_BYTES {
            return Err(PartError::TooMuch);
        }
        let part = Part::decode(part)?;
        let before = self.pods.len() + self.containers.len();
        if before + part.pods.len() + part.containers.len() > MAX_OBJECTS {
            return Err(PartError::TooMuch);
        }
        for pod in part.pods {
            self.pods.push(PodSandbox::decode(pod.as_slice())?);
        }
        for container in part.containers {
            self.containers
                .push(Container::decode(container.as_slice())?);
        }
        Ok(part.more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::generated::SynchronizeRequest;

    fn part(ids: &[&str], more: bool) -> Vec<u8> {
        let pods = ids.iter().map(|id| PodSandbox {
            id: (*id).to_owned(),
            ..Default::default()
        });
        let request = SynchronizeRequest {
            pods: pods.collect(),
            containers: vec![Container::default()],
            more,
        };
        request.encode_to_vec()
    }

    // req: NRI-3
    #[test]
    fn parts_are_put_together_in_their_order() {
        let mut whole = Synchronization::default();
        assert!(whole.add(&part(&["a", "b"], true)).unwrap());
        assert!(!whole.add(&part(&["c"], false)).unwrap());
        let ids: Vec<_> = whole.pods.iter().map(|pod| pod.id.as_str()).collect();
        assert_eq!(ids, ["a", "b", "c"]);
        assert_eq!(whole.containers.len(), 2);
    }

    #[test]
    fn objects_are_counted_before_they_are_decoded() {
        // Two million empty pods in the largest message: 600 MB if they were decoded.
        let empty_pods = [0x0a, 0x00].repeat(2 << 20);
        let mut whole = Synchronization::default();
        assert!(matches!(whole.add(&empty_pods), Err(PartError::TooMuch)));
        assert!(whole.pods.is_empty());
    }

    // req: NRI-3
    #[test]
    fn endless_parts_end() {
        let mut whole = Synchronization::default();
        let large = vec![0; 4 << 20];
        let refused = (0..=16).find_map(|_| match whole.add(&large) {
            Err(PartError::TooMuch) => Some(()),
            _ => None,
        });
        assert!(refused.is_some());
    }
}
