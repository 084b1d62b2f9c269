//! The types of a decision.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use serde_json::Value;

use crate::channel_lease::ChannelLease;
use crate::rejection::Rejection;
use crate::status::Admission;
use crate::template_ref::TemplateRef;

/// The next step of a reconcile.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Send this request, then decide again.
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
    /// Create this template. The request has to fail if one of that name exists: it may have another owner.
    CreateTemplate(Box<ResourceClaimTemplate>),
    /// Find out what the API server would store for this template, with a dry run.
    DryRunTemplate(Box<ResourceClaimTemplate>),
    /// Delete a template of ours.
    DeleteTemplate(TemplateRef),
    /// Remove our finalizer from a template that is being deleted, with this JSON patch.
    RemoveTemplateFinalizer(TemplateRef, Value),
    /// Remove our finalizer from the ComputeDomain, with this JSON patch. The last request.
    RemoveFinalizer(Value),
    /// Count the nodes that publish devices of our driver, and those of them without a clique.
    CountNodes,
    /// Write the status that [`Findings::report`](crate::Findings::report) builds for this.
    WriteStatus(Admission),
    /// Look up the ComputeDomain in this namespace: by the name, or without one, by the UID.
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
    /// Find out with a dry run whether the CRD has the field of the channel.
    TryChannel,
    /// Create the Lease of this channel in the driver's namespace. The request has to fail if the name exists.
    CreateLease(u32, Box<Lease>),
    /// Create this Lease again, which another client deleted, in the driver's namespace. The request has to fail
    /// if the name exists.
    RestoreLease(Box<Lease>),
    /// Change a Lease with this merge patch, which fails if it has changed.
    ChangeLease(Arc<ChannelLease>, Value),
    /// Delete a Lease, unless it has changed.
    DeleteLease(Arc<ChannelLease>),
}

/// How a reconcile ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its template exists, and its status reports that.
    Admitted,
    /// Its status reports the reason, except for [`Rejection::Unreadable`]: the status of such an object cannot be
    /// compared, and every reconcile would write it again.
    Rejected(Rejection),
    /// The ComputeDomain is being deleted, and other finalizers or a policy keep this template.
    Blocked(TemplateRef),
    /// It does not exist or is about to be removed, and none of our objects is left.
    Gone,
}
