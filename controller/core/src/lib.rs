//! The reconcile logic of `compute-domain-controller`, without I/O: which objects and status a
//! ComputeDomain should have, and which API request comes next. Only the controller uses this crate and
//! sends the requests.
//!
//! ```text
//! watch of `ComputeDomains` ──┐
//! watch of templates ───────┼──> Index ──> Observed ──┐                ┌─> Decision::Send(Request) ──┐
//! watch of claims ──────────┘      ^                  ├──> decide() ───┤                             │
//!                                  │     Findings ────┘                └─> Decision::Done(Outcome)   │
//!                                  │        ^                                                        │
//!                                  └────────┴──────────── what the response shows <──────────────────┘
//! ```
//!
//! [`Index`] has what the watches and responses have delivered: of each object, only what the decisions
//! need. [`Findings`] are results of the requests of one reconcile that no watch delivers, for instance that
//! the API server rejects a template or has no ComputeDomain with a UID. A reconcile is for one UID. Its
//! ComputeDomain may exist, or only templates with its label.
//!
//! All state is in the API server. The controller may be killed after any request, and the next reconcile
//! continues from there.
//!
//! A new ComputeDomain gets a finalizer, then its `ResourceClaimTemplate`, then the status `Ready`. A
//! rejected one gets only a status with the reason. When a ComputeDomain is deleted, its template is
//! deleted, then our finalizer is removed from the template, then from the ComputeDomain. Orphaned
//! templates are deleted, too. [`lifecycle`] has this order as a state machine; `ARCHITECTURE.md` shows
//! its table.
//!
//! With `imex.isolation=channel`, every ComputeDomain gets its own IMEX channel between finalizer and
//! template: first the `Lease` of the channel, then `status.channel`, then the template. When the
//! ComputeDomain and its claims are deleted, the Lease is released, and deleted 10 minutes later. Only
//! then is the channel free.
//!
//! [`Cliques`] has the nodes' reports of prepared claims and finds what users should know about them. No
//! request depends on it.
//!
//! [`NodeCliques`] and [`GroupPools`] are about nodes, not `ComputeDomains`: the clique label of each node,
//! and the channels that can be allocated to the pods of a group in one clique.
//!
//! Two modules are for driver-managed mode, in which the driver runs one permanent `nvidia-imex` on each
//! node. [`CliqueMembers`] assigns each node its index in the node list of its clique's IMEX daemons.
//! [`DomainNodes`] has the nodes of each ComputeDomain for its status.
//!
//! The Go driver's driver-managed mode runs `nvidia-imex` once for each ComputeDomain instead, and creates
//! `DaemonSets` and further templates. The controller recognises and reports such objects. If this driver is
//! in driver-managed mode, too, [`GoDaemons`] decides when to remove them. Otherwise it never changes them.

mod channel_lease;
mod channels;
mod clique_members;
mod cliques;
mod content;
mod decide;
mod domain;
mod domain_nodes;
mod finalizer;
#[cfg(test)]
mod fixtures;
mod go_daemons;
mod go_driver;
mod group_lease;
mod group_pools;
mod index;
pub mod lifecycle;
mod listing;
mod lost_label;
mod node_cliques;
mod nodes;
mod observed_template;
mod preflight;
mod rejection;
mod reported;
mod status;
mod template;
mod template_name;
mod template_ref;
mod version;
mod waiting;

pub use channel_lease::{ChannelLease, channel_of_lease};
pub use channels::{ChannelCounts, ObservedChannels};
pub use clique_members::{
    CliqueMembers, Clock, DaemonPod, MemberCounts, MemberStep, Replacement, RolloutCounts,
    RolloutEvent, UnplacedNode, template,
};
pub use cliques::{Clique, CliqueFinding, Cliques};
pub use content::{Content, leaves_out_only};
pub use decide::{Decision, Findings, Outcome, Request, decide};
pub use domain::{Domain, UnidentifiedError};
pub use domain_nodes::DomainNodes;
pub use go_daemons::{
    GoDaemonEvent, GoDaemons, GoKind, GoObject, GoStep, is_clique_of, label_removal,
};
pub use group_lease::{GROUP_LEASE, GroupLease, GroupStep, GroupUse};
pub use group_pools::{GroupPools, PoolStep, cliques_of_pools};
pub use index::{Change, ClaimName, Index, Key, Observed};
pub use lost_label::{may_have_lost_label, restored_label};
pub use node_cliques::{CliqueChange, LabelWrite, NodeCliques, NodeSlice, is_without_clique};
pub use nodes::{CliqueRefusal, Nodes, without_stray_nodes};
pub use observed_template::ObservedTemplate;
pub use preflight::{DriverChange, LiveDomain, Obstacle, Preflight};
pub use rejection::Rejection;
pub use status::{Admission, Report, StatusSchema, status_patch};
pub use template::WRITER;
pub use template_name::TemplateNameError;
pub use template_ref::TemplateRef;
pub use waiting::{NodeCount, Notice, Waiting};
