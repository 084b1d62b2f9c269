//! What comes of a decision.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use serde_json::Value;

use crate::channel_lease::ChannelLease;
use crate::rejection::Rejection;
use crate::status::Admission;
use crate::template_ref::TemplateRef;

/// What a reconcile does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Make this request, and decide again with what it changed.
    Send(Request),
    /// Nothing, until something changes.
    Done(Outcome),
}

/// One API request. A patch of finalizers fails if the object or its list of finalizers has
/// changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Add our finalizer to the ComputeDomain, with this JSON patch.
    AddFinalizer(Value),
    /// Create this template. It has to fail if one of that name exists by now: that may be
    /// somebody else's.
    CreateTemplate(Box<ResourceClaimTemplate>),
    /// Find out what the API server would store for this template, without creating it.
    DryRunTemplate(Box<ResourceClaimTemplate>),
    /// Delete a template of ours.
    DeleteTemplate(TemplateRef),
    /// Remove our finalizer from a template that is being deleted, with this JSON patch.
    RemoveTemplateFinalizer(TemplateRef, Value),
    /// Remove our finalizer from the ComputeDomain, with this JSON patch. The last request.
    RemoveFinalizer(Value),
    /// Count the nodes that publish devices of our driver, and those of them without a clique.
    CountNodes,
    /// Write this into the status, as [`Findings::report`](crate::Findings::report) has it.
    WriteStatus(Admission),
    /// Read whether this namespace has the ComputeDomain: the one of that name, or if there is no
    /// name, any with the UID.
    LookUpDomain {
        /// The namespace; empty for all.
        namespace: Box<str>,
        /// Its name.
        name: Option<Box<str>>,
    },
    /// Read the template of this name, in the domain's namespace.
    LookUpTemplate {
        /// Its name.
        name: Box<str>,
    },
    /// Find out whether the CRD has the field of the channel, without writing it.
    TryChannel,
    /// Create the Lease of this channel, in the driver's namespace. It has to fail if there is one of
    /// that name by now.
    CreateLease(u32, Box<Lease>),
    /// Create this Lease again, which somebody has deleted, in the driver's namespace. It has to fail if
    /// there is one of that name by now.
    RestoreLease(Box<Lease>),
    /// Change a Lease with this merge patch, which fails if it has changed.
    ChangeLease(Arc<ChannelLease>, Value),
    /// Delete a Lease, unless it has changed.
    DeleteLease(Arc<ChannelLease>),
}

/// How a reconcile ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its template exists, and its status says so.
    Admitted,
    /// Its status reports the reason, except for [`Rejection::Unreadable`]: of such an object the
    /// status could not be compared, and would be written again by every reconcile.
    Rejected(Rejection),
    /// The ComputeDomain is being deleted, and others keep this template: by their finalizers, or by a
    /// policy.
    Blocked(TemplateRef),
    /// It does not exist or is about to go, and nothing of ours is left.
    Gone,
}
