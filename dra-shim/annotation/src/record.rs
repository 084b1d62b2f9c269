//! What is recorded of a pod, and where.

use serde::{Deserialize, Serialize};

/// Where the records are.
pub const RECORDS_DIR: &str = "/run/imex-dra/annotations";

/// A pod that has a channel by annotation.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The runtime's id of the pod's sandbox.
    pub sandbox: String,
    /// The pod's UID.
    pub pod_uid: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The channel's number.
    pub channel: u32,
}
