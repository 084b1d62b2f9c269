//! Diagnoses a GPU host: why containers do not get the NVIDIA IMEX channels that
//! they request by a `ResourceClaim` or a CDI device name, and how to fix that.
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
//! Facts and findings are separate: [`Facts::read`] reads files, `/proc`, NVML and
//! the output of programs, but judges nothing. [`diagnose`] judges, and needs no files,
//! clock or processes. Tests of reading use directories; tests of judging use hand-made
//! facts.
//!
//! The caller decides what to do with findings: this crate does not print, set exit
//! codes or parse a command line. `cdi-gen doctor` is one caller; the README has others.
//!
//! # Guarantees
//!
//! * It changes nothing on the host, and sends nothing over a network.
//! * Unreadable data is a fact or a finding of its own. It never counts as missing: an
//!   unreadable checkpoint is not an empty one.
//! * Every wait has a deadline; [`Facts::read`] lists them.
//! * Subjects and evidence have the host's own paths, whatever root the host is
//!   examined through.
//!
//! # Modules
//!
//! Each module uses only those above it.
//!
//! | what | modules |
//! |---|---|
//! | texts | `text` (numbers in sentences, quoting) |
//! | drivers | `dra_driver` (names, directories and CDI kinds of the DRA drivers) |
//! | specs | `majors`, `spec_node` (device nodes, and kinds that crash a runtime) |
//! | a host | `host` (its files; links stay inside), `processes`, `systemd` (units), `packages` (versions of packages), `cri` (queries to a runtime) |
//! | specs and a host | `node_report` (a spec's node compared with the host's), `spec_paths` (what mounts and hooks need) |
//! | runtimes | `runtime_table`, `runtime_release` (the CDI version that a release loads) |
//! | input | `options`, with the commands that fixes name |
//! | facts | `error_facts`, `kubelet_state`; [`facts`], a module for each area |
//! | findings | `finding`, `causes` (which explains which), `diagnosis`; `checks`, a module for each area |
//! | presentation | `grouping` |
//!
//! Commands other than `doctor` use parts of this crate: [`Host`] and [`NodeReport`]
//! compare the device nodes of a spec with a host, specs are validated for a
//! [`RuntimeRelease`], and [`KubeletState`] and [`checkpoint_records`] have the claims
//! whose specs are in use.

#![forbid(unsafe_code)]

mod causes;
mod checks;
mod cri;
mod diagnosis;
mod dra_driver;
mod error_facts;
pub mod facts;
mod finding;
mod grouping;
mod host;
mod kubelet_state;
mod majors;
mod node_report;
mod options;
mod packages;
mod processes;
mod runtime_release;
mod runtime_table;
mod spec_node;
mod spec_paths;
mod systemd;
mod text;

pub use checks::{GPU_WITHOUT_IDENTITY, diagnose, gpu_findings};
pub use diagnosis::{Area, AreaState, Diagnosis};
pub use dra_driver::DraDriver;
pub use error_facts::{ErrorFacts, refusal_hint};
pub use facts::Facts;
pub use facts::claims::boot_id;
pub use facts::claims::checkpoint_file::{
    DecodedCheckpoint, MAX_CHECKPOINT_LEN, RawGpuGroup, checkpoint_records,
};
pub use facts::directories::is_spec_name;
pub use facts::gpu_sources;
pub use finding::{Finding, Severity};
pub use gpu_inventory::serve_if_started;
pub use grouping::{FindingGroup, group_findings};
pub use host::{FileId, Host, RootError};
pub use kubelet_state::{KUBELET_STATE_FILE, KubeletClaim, KubeletState, KubeletStateError};
pub use majors::Majors;
pub use node_report::{
    BadNodes, MAKE_CHANNEL, NodeReport, NodeState, REWRITE_SPEC_HINT, group_bad_nodes,
};
pub use options::{DEFAULT_DRIVER_ROOT, DEFAULT_KUBELET_ROOT, Invocation, Options};
pub use processes::Process;
pub use runtime_release::{RuntimeRelease, UnknownRuntime};
pub use spec_node::{OneLetterKind, declared_major, device_nodes};
pub use spec_paths::{HostPaths, MissingPath, PathState, rewrite_fix};
pub use text::{and_more, counted, number_list, shell_quote};

/// The README's examples, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
