//! What is wrong with a GPU host: facts in, findings out.

#![forbid(unsafe_code)]

mod area;
mod bounded_read;
mod checkpoint;
mod checks;
mod claim_specs;
mod command_line;
mod diagnosis;
pub mod facts;
mod file_id;
mod files;
mod finding;
mod grouping;
mod host;
mod invocation;
mod kubelet_state;
mod majors;
mod node_report;
mod options;
mod packages;
mod problem;
mod processes;
mod refusal;
mod root;
mod runtime_release;
mod shell;
mod spec_node;
mod text;

pub use area::{Area, AreaState};
pub use bounded_read::{ReadError, read_bounded, read_open_bounded};
pub use checkpoint::{DecodedCheckpoint, checkpoint_records, is_unsettled};
pub use checks::diagnose;
pub use claim_specs::{ClaimSpecFile, claim_specs_in};
pub use diagnosis::Diagnosis;
pub use facts::Facts;
pub use file_id::FileId;
pub use files::HostFiles;
pub use finding::{Finding, Severity};
pub use grouping::{FindingGroup, group_findings};
pub use host::Host;
pub use invocation::Invocation;
pub use kubelet_state::{KUBELET_STATE_FILE, KubeletClaim, KubeletState, KubeletStateError};
pub use majors::{Majors, StaleMajor, is_channel_path};
pub use node_report::{
    BadNodes, NodeReport, NodeState, REWRITE_SPEC_HINT, and_more, group_bad_nodes,
};
pub use options::{DEFAULT_KUBELET_ROOT, Options};
pub use problem::Problem;
pub use processes::Process;
pub use refusal::{refusal_hint, system_error};
pub use root::{Root, RootError};
pub use runtime_release::{RuntimeRelease, UnknownRuntime};
pub use shell::shell_quote;
pub use spec_node::{declared_major, device_nodes, host_path, is_channel_node, is_claim_spec};
pub use text::counted;
