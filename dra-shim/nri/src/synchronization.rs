//! The pods and containers that exist, which the runtime may send in several parts.

use prost::Message as _;

use crate::api::generated::SynchronizeRequest;
use crate::api::{Container, PodSandbox};
use crate::weight::weight;

/// Bytes that a synchronization may take in memory. A container with two hundred variables,
/// mounts and labels takes some 60 KB; a node has some hundreds.
const MAX_WEIGHT: usize = 128 << 20;

/// The parts that have come so far.
#[derive(Debug, Default)]
pub(crate) struct Synchronization {
    pub(crate) pods: Vec<PodSandbox>,
    pub(crate) containers: Vec<Container>,
    weight: usize,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PartError {
    #[error("the request cannot be decoded")]
    Decode(#[from] prost::DecodeError),
    #[error(
        "the pods and containers would take more than {MAX_WEIGHT} bytes of the plugin's memory"
    )]
    TooMuch,
}

// === impl Synchronization ===

impl Synchronization {
    /// Adds a part, and returns whether another one follows.
    // req: NRI-3, NRI-8
    pub(crate) fn add(&mut self, part: &[u8]) -> Result<bool, PartError> {
        self.weight = self
            .weight
            .saturating_add(weight::<SynchronizeRequest>(part));
        if self.weight > MAX_WEIGHT {
            return Err(PartError::TooMuch);
        }
        let part = SynchronizeRequest::decode(part)?;
        self.pods.extend(part.pods);
        self.containers.extend(part.containers);
        Ok(part.more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    // req: NRI-3
    #[test]
    fn endless_parts_end() {
        let mut whole = Synchronization::default();
        let pods = part(&vec!["a pod like others"; 1000], true);
        let refused = (0..1000).find(|_| matches!(whole.add(&pods), Err(PartError::TooMuch)));
        assert!(refused.is_some_and(|parts| parts > 20), "{refused:?}");
    }
}
