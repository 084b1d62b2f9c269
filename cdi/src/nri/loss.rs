//! Changes that NRI cannot express.

use std::fmt;

use dra_common::Advice;

use super::release::NriRelease;
use crate::{Change, Permissions};

/// A change of a plan that the container does not get, or not as planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The change; of Intel RDT, the part that is lost.
    pub change: Change,
    /// Why, and what the container gets instead.
    pub reason: LossReason,
}

/// Why NRI cannot express a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Advice)]
#[non_exhaustive]
pub enum LossReason {
    /// NRI allows every container to read and write a device that it adds (`rw`), and to make
    /// nodes of block devices (`rwm`). The container gets this, which is **more** than
    /// planned. Code `nri-more-access`.
    #[advice(code = "nri-more-access")]
    MoreAccess(Permissions),
    /// The container gets this, which is less than planned: a rule for more access needs NRI
    /// 0.10. Code `nri-less-access`.
    #[advice(code = "nri-less-access")]
    LessAccess(Permissions),
    /// NRI makes a rule of the device cgroup for every node, and runc refuses a container
    /// with one for a fifo or an unbuffered device. The node is left out. Code
    /// `nri-node-kind`.
    #[advice(code = "nri-node-kind")]
    NodeKind,
    /// The node belongs to root: before NRI 0.11 the runtime does not report the container's user,
    /// which would own it. Reported only for nodes that others may not read and write. Code
    /// `nri-unknown-user`.
    #[advice(code = "nri-unknown-user")]
    UnknownUser,
    /// NRI reads the name of a variable, mount target or device that begins with `-` as a
    /// removal. Code `nri-removal`.
    #[advice(code = "nri-removal")]
    Removal,
    /// NRI has no field for this change: `l3CacheSchema`, `memBwSchema`, additional groups. Code
    /// `nri-no-field`.
    #[advice(code = "nri-no-field")]
    NoField,
    /// It needs this release of NRI. Code `nri-release`.
    #[advice(code = "nri-release")]
    Release(NriRelease),
}

// === impl Loss ===

impl fmt::Display for Loss {
    /// One line, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.change, self.reason)
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::MoreAccess(given) => write!(f, "NRI allows {}", String::from(given)),
            Self::LessAccess(given) => {
                let given = Some(String::from(given)).filter(|given| !given.is_empty());
                let given = given.as_deref().unwrap_or("nothing");
                write!(
                    f,
                    "NRI versions before {} allow {given}",
                    NriRelease::Nri0_10
                )
            }
            Self::NodeKind => f.write_str("NRI adds block and character devices only"),
            Self::UnknownUser => f.write_str(
                "the runtime does not report the container's user, so root owns the device node",
            ),
            Self::Removal => f.write_str("in NRI, a name with a leading - means removal"),
            Self::NoField => f.write_str("NRI has no field for this change"),
            Self::Release(release) => write!(f, "this change needs NRI {release}"),
        }
    }
}
