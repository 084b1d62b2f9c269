//! Joins the existing pods and containers, which the runtime may send in several parts.

use prost::{DecodeError, Message as _};

use crate::api::generated::SynchronizeRequest;
use crate::api::{Container, PodSandbox};

/// The parts received so far.
#[derive(Debug, Default)]
pub(crate) struct Synchronization {
    pub(crate) pods: Vec<PodSandbox>,
    pub(crate) containers: Vec<Container>,
}

// === impl Synchronization ===

impl Synchronization {
    /// Adds a part. Returns whether another one follows.
    // req: NRI-3
    pub(crate) fn add(&mut self, part: &[u8]) -> Result<bool, DecodeError> {
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
    fn parts_are_joined_in_order() {
        let mut whole = Synchronization::default();
        assert!(whole.add(&part(&["a", "b"], true)).unwrap());
        assert!(!whole.add(&part(&["c"], false)).unwrap());
        let ids: Vec<_> = whole.pods.iter().map(|pod| pod.id.as_str()).collect();
        assert_eq!(ids, ["a", "b", "c"]);
        assert_eq!(whole.containers.len(), 2);
    }
}
