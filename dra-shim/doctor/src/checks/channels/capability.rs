//! The capability with which nvidia-imex manages channels, and its device node.

use imex_cdi::{IMEX_MGMT_CAPABILITY, PROC_DEVICES};

use super::node::mismatch;
use crate::facts::channels::{CAPABILITY_DRIVER, CapabilityFacts, NodeLookup};
use crate::finding::Finding;

/// The host's nvidia-imex needs it to start; containers do not.
pub(super) fn check(capability: &CapabilityFacts, imex_is_down: bool) -> Option<Finding> {
    let node = capability.node_path();
    let Some(major) = capability.major else {
        return Some(Finding::warning(
            "nvidia-caps-major-missing",
            PROC_DEVICES,
            format!(
                "no {CAPABILITY_DRIVER} among the character devices: what {node} should be is not known"
            ),
            "reload the nvidia kernel module",
        ));
    };
    check_capability_node(capability, major, imex_is_down)
}

/// A node with another capability's numbers would be opened, and give nvidia-imex
/// the wrong rights.
fn check_capability_node(
    capability: &CapabilityFacts,
    major: i64,
    imex_is_down: bool,
) -> Option<Finding> {
    let node = capability.node_path();
    let make = format!("nvidia-modprobe -f {IMEX_MGMT_CAPABILITY}");
    match &capability.node {
        NodeLookup::Found(found) => {
            let expected = format!("the capability that {IMEX_MGMT_CAPABILITY} names");
            let mismatch = mismatch(*found, &expected, (major, capability.minor.into()))?;
            Some(Finding::warning(
                "imex-capability-node-wrong",
                node.clone(),
                format!("{mismatch}: nvidia-imex cannot start with it"),
                format!("rm {node} && {make}"),
            ))
        }
        // One that runs has had a node: its container's, or one made for it.
        NodeLookup::Absent if !imex_is_down => None,
        NodeLookup::Absent => Some(Finding::warning(
            "imex-capability-node-missing",
            node,
            format!("{IMEX_MGMT_CAPABILITY} names it, and nvidia-imex cannot start without it"),
            make,
        )),
        NodeLookup::Unreadable(reason) => Some(Finding::warning(
            "imex-capability-node-unreadable",
            node,
            format!("it cannot be examined: {reason}"),
            "run cdi-gen doctor as root",
        )),
    }
}
