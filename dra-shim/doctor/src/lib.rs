//! Diagnoses a GPU host: why containers do not get the NVIDIA IMEX channels that
//! they request by a `ResourceClaim` or a CDI device name, and what to do about it.
//!
//! ```text
//! Host (a root directory) ─┐
//! Options (what, where)   ─┴► Facts::read ──► Facts (plain data, one struct per area)
//!                                               │
//! Invocation (for commands in fixes) ───────────┴► diagnose ──► Diagnosis
//!                                                    (pure)     ├─ areas: name, state, summary
//!                                                               └─ findings: id, severity,
//!                                                                  subject, evidence, fix
//! ```
//!
//! Facts and findings are apart: [`Facts::read`] reads files, `/proc`, NVML and
//! programs, and judges nothing; [`diagnose`] judges, and needs no file, clock
//! or process. Whatever can be read wrongly is tested on directories, whatever
//! can be concluded wrongly on facts that a test makes by hand.
//!
//! What is done with findings is up to the caller: nothing here prints, knows
//! exit codes or parses a command line. `cdi-gen doctor` is one caller; the
//! README has others.
//!
//! # Guarantees
//!
//! * Nothing on the host is changed, and nothing is sent over a network.
//! * What cannot be read is a fact or a finding of its own. It is never taken for
//!   something that does not exist: an unreadable checkpoint is not an empty one.
//! * Everything that is waited for has a deadline; [`Facts::read`] names them.
//! * Subjects and evidence have the host's own paths, whatever root the host is
//!   examined through.
//!
//! # Modules
//!
//! Each uses only those above it.
//!
//! | what | modules |
//! |---|---|
//! | texts | `text` (numbers in sentences), `shell` (quoting) |
//! | files of a host | `bounded_read` (up to a limit), `root` (links stay inside), `file_id`; `files`; `refusal` (what to do about a refused file); `systemd` (units) |
//! | processes of a host | `processes`, `command_line`; `packages` (versions of packages); `cri` (questions to a runtime) |
//! | device nodes | `majors`, `spec_node`; `host`; `node_report` (a spec's node beside the host's) |
//! | other parts of specs | `one_letter` (kinds that end a runtime), `spec_paths` (what mounts and hooks need of the host) |
//! | files of claims | `checkpoint`, `claim_specs`, `kubelet_state` |
//! | runtimes | `runtime_table`, `runtime_release` (which CDI version a release loads) |
//! | what to read | `options` |
//! | what was read | `error_facts`; [`facts`], a module for each area |
//! | what follows from it | `finding`, `area`, `causes` (which explains which), `diagnosis`; `invocation`; `checks`, a module for each area |
//! | how it is shown | `grouping` |
//!
//! Commands other than `doctor` use the parts: [`Host`] and [`NodeReport`]
//! compare the device nodes of a spec with a host, [`RuntimeRelease`] is what a
//! spec is validated for, [`KubeletState`] and [`checkpoint_records`] have the
//! claims whose specs are in use.

#![forbid(unsafe_code)]

mod area;
mod bounded_read;
mod causes;
mod checkpoint;
mod checks;
mod claim_specs;
mod command_line;
mod cri;
mod diagnosis;
mod error_facts;
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
mod one_letter;
mod options;
mod packages;
mod processes;
mod refusal;
mod root;
mod runtime_release;
mod runtime_table;
mod shell;
mod spec_node;
mod spec_paths;
mod systemd;
mod text;

pub use area::{Area, AreaState};
pub use bounded_read::{ReadError, read_bounded, read_open_bounded};
pub use checkpoint::{DecodedCheckpoint, MAX_CHECKPOINT_LEN, checkpoint_records};
pub use checks::diagnose;
pub use diagnosis::Diagnosis;
pub use error_facts::ErrorFacts;
pub use facts::Facts;
pub use facts::claims::boot_id;
pub use file_id::FileId;
pub use files::HostFiles;
pub use finding::{Finding, Severity};
pub use grouping::{FindingGroup, group_findings};
pub use host::Host;
pub use invocation::Invocation;
pub use kubelet_state::{KUBELET_STATE_FILE, KubeletClaim, KubeletState, KubeletStateError};
pub use majors::{Majors, StaleMajor};
pub use node_report::{
    BadNodes, MAKE_CHANNEL, NodeReport, NodeState, REWRITE_SPEC_HINT, group_bad_nodes,
};
pub use one_letter::OneLetter;
pub use options::{DEFAULT_DRIVER_ROOT, DEFAULT_KUBELET_ROOT, Options};
pub use processes::Process;
pub use refusal::refusal_hint;
pub use root::{Root, RootError};
pub use runtime_release::{RuntimeRelease, UnknownRuntime};
pub use shell::shell_quote;
pub use spec_node::{declared_major, device_nodes};
pub use spec_paths::{HostPaths, MissingPath, PathState, rewrite_fix};
pub use text::{and_more, counted, number_list};

/// The README's examples, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
