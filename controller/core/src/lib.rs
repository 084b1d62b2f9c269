//! The reconcile logic of `compute-domain-controller`, without I/O: which objects and which status
//! a ComputeDomain should have, and the one API request that comes next. Only the controller uses
//! this crate; it makes the requests.
//!
//! ```text
//! watch of `ComputeDomains` ──┐
//! watch of templates ───────┼──> Index ──> Observed ──┐                ┌─> Decision::Send(Request) ──┐
//! watch of claims ──────────┘      ^                  ├──> decide() ───┤                             │
//!                                  │     Findings ────┘                └─> Decision::Done(Outcome)   │
//!                                  │        ^                                                        │
//!                                  └────────┴──────────── what the response says <───────────────────┘
//! ```
//!
//! [`Index`] is what the watches have told and the requests have changed, as little of each object as
//! the decisions need. [`Findings`] are what one reconcile has found out by requests and no watch
//! tells: that the API server refuses a template, or has no ComputeDomain of a UID. A reconcile is for
//! one UID, whether its ComputeDomain exists or only templates with its label do.
//!
//! Nothing is remembered that the API server does not have, so the controller may be killed after any
//! request, and the next reconcile continues from there.
//!
//! A ComputeDomain that is not being deleted gets a finalizer, then its `ResourceClaimTemplate`,
//! then the status `Ready`. A rejected one gets a status with the reason and nothing else. When one
//! is deleted, its template is deleted, then our finalizer is removed from the template, then from
//! the ComputeDomain. A template whose ComputeDomain does not exist any more goes, too. [`lifecycle`]
//! is this order as a state machine, the only place that knows it; `ARCHITECTURE.md` shows its table.
//!
//! Where every ComputeDomain has an IMEX channel of its own, it gets one between finalizer and template:
//! first the `Lease` of that channel, which the API server creates once, then `status.channel`, then the
//! template. The Lease stays until the ComputeDomain and its claims are gone, is released then, and
//! deleted 10 minutes later; only then is the channel free.
//!
//! [`Cliques`] stands apart: what the nodes have reported of prepared claims, and what users are told
//! of it. No request depends on it.
//!
//! [`NodeCliques`] and [`GroupPools`] are about nodes, not `ComputeDomains`: which label a node's clique
//! gives it, and which channels can be allocated to the pods of a group in one clique.
//!
//! Two are for the driver-managed mode, in which the driver runs one `nvidia-imex` on each node for good:
//! [`CliqueMembers`] says which node has which index in the node list of its clique's IMEX daemons, and
//! [`DomainNodes`] which nodes each ComputeDomain has, for its status.
//!
//! The driver-managed mode of the Go driver runs `nvidia-imex` once for each ComputeDomain instead, and
//! creates `DaemonSets` and further templates. Such objects are recognised and reported. Where this driver is
//! in the driver-managed mode, too, [`GoDaemons`] says when those of a ComputeDomain are removed; otherwise they are
//! never changed.

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
