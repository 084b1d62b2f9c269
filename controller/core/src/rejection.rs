use compute_domain_api::names::{CHANNEL_NOT_CONFIRMED_REASON, DOMAIN_LABEL, channel_lease_name};

use crate::template_name::TemplateNameError;
use crate::template_ref::TemplateRef;

/// Reason of [`Rejection::NameTaken`].
pub(crate) const NAME_TAKEN_REASON: &str = "TemplateNameTaken";

/// Reason of the condition of a ComputeDomain that has just got its channel.
pub(crate) const CHANNEL_ASSIGNED_REASON: &str = "ChannelAssigned";

const NO_CHANNEL_FREE_REASON: &str = "NoChannelFree";
const CHANNEL_REFUSED_REASON: &str = "ChannelRefused";
const CHANNELS_BEING_REBUILT_REASON: &str = "ChannelsBeingRebuilt";
const CHANNEL_FIELD_MISSING_REASON: &str = "ChannelFieldMissing";

/// The reasons of a ComputeDomain that waits for a channel, or has just got it.
pub(crate) const CHANNEL_REASONS: [&str; 5] = [
    CHANNEL_ASSIGNED_REASON,
    NO_CHANNEL_FREE_REASON,
    CHANNEL_REFUSED_REASON,
    CHANNELS_BEING_REBUILT_REASON,
    CHANNEL_FIELD_MISSING_REASON,
];

/// Why a ComputeDomain is not admitted. It is not an error of the controller: the status reports
/// it for as long as it lasts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The CRD allows an object without a spec.
    #[error("the ComputeDomain has no spec")]
    SpecMissing,
    /// Spec or status do not match the CRD, for instance because the object was stored under an
    /// older schema.
    #[error("the ComputeDomain does not match its CRD: {message}")]
    Unreadable {
        /// The decoder's error message.
        message: String,
    },
    /// The spec's template name is not a valid object name.
    #[error("{name:?} is not a valid name of a ResourceClaimTemplate")]
    InvalidTemplateName {
        /// The name in the spec.
        name: String,
        /// What is wrong with it.
        #[source]
        source: TemplateNameError,
    },
    /// A template of that name exists and does not belong to this ComputeDomain.
    #[error("ResourceClaimTemplate {name:?} already exists and belongs to {owner}")]
    NameTaken {
        /// The name.
        name: String,
        /// Whom it belongs to, as the end of a sentence.
        owner: String,
    },
    /// The API server does not let us create the template: a quota, a policy or a webhook.
    #[error("the API server refuses the ResourceClaimTemplate: {message}")]
    TemplateRefused {
        /// What the API server said.
        message: String,
    },
    /// The template is being deleted, and finalizers of others keep it.
    #[error("{template} is being deleted, but finalizers of others remain on it")]
    TemplateHeld {
        /// The template.
        template: TemplateRef,
    },
    /// The API server does not let us delete the template, or remove our finalizer from it.
    #[error("the API server does not let go of {template}: {message}")]
    TemplateKept {
        /// The template.
        template: TemplateRef,
        /// What the API server said.
        message: String,
    },
    /// The template that the API server has stored is not the one that we have sent, even when it is
    /// created again.
    #[error("{template} is changed by somebody whenever it is created")]
    TemplateChanged {
        /// The template.
        template: TemplateRef,
    },
    /// It is being deleted, its template is gone, and finalizers of others keep it.
    #[error("the ComputeDomain is being deleted and its ResourceClaimTemplate is gone, but finalizers of others remain: {}", finalizers.join(", "))]
    BeingDeleted {
        /// These finalizers.
        finalizers: Vec<String>,
    },
    /// Objects of the driver-managed mode still exist for it.
    #[error("the ComputeDomain is still driver-managed: {object} exists")]
    DriverManaged {
        /// One of these objects.
        object: TemplateRef,
        /// UID of the ComputeDomain.
        uid: String,
        /// Whether this driver removes them.
        removes: bool,
    },
    /// Every channel has its Lease, or was released not long ago.
    #[error("all {} IMEX channels are in use, or have been until a short time ago", .count)]
    NoChannelFree {
        /// How many can be given.
        count: usize,
    },
    /// The API server does not let us create the Lease of a channel: a quota, a policy, a webhook or
    /// rights that are missing.
    #[error("the API server refuses the Lease of an IMEX channel: {message}")]
    ChannelRefused {
        /// What the API server said.
        message: String,
    },
    /// Leases of channels were lost: who has which is not certain yet.
    #[error(
        "the Leases of IMEX channels were lost and are being created again; no channel is given until 10 minutes after"
    )]
    ChannelsBeingRebuilt,
    /// The channel in the status is not the domain's.
    #[error("IMEX channel {channel} of {domain} belongs to {holder}")]
    ChannelNotConfirmed {
        /// The channel.
        channel: u32,
        /// Whose status it is in, with its UID.
        domain: String,
        /// Whom it belongs to, as the end of a sentence.
        holder: String,
    },
    /// The CRD is an older one.
    #[error("the CustomResourceDefinition of ComputeDomains has no field status.channel")]
    ChannelFieldMissing,
}

impl Rejection {
    /// Reason of the event and of the condition. Stable.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::SpecMissing => "SpecMissing",
            Self::Unreadable { .. } => "Unreadable",
            Self::InvalidTemplateName { .. } => "InvalidTemplateName",
            Self::NameTaken { .. } => NAME_TAKEN_REASON,
            Self::TemplateRefused { .. } => "TemplateRefused",
            Self::TemplateHeld { .. } => "TemplateHeld",
            Self::TemplateKept { .. } => "TemplateKept",
            Self::TemplateChanged { .. } => "TemplateChanged",
            Self::BeingDeleted { .. } => "BeingDeleted",
            Self::DriverManaged { .. } => "DriverManagedLeftovers",
            Self::NoChannelFree { .. } => NO_CHANNEL_FREE_REASON,
            Self::ChannelRefused { .. } => CHANNEL_REFUSED_REASON,
            Self::ChannelsBeingRebuilt => CHANNELS_BEING_REBUILT_REASON,
            Self::ChannelNotConfirmed { .. } => CHANNEL_NOT_CONFIRMED_REASON,
            Self::ChannelFieldMissing => CHANNEL_FIELD_MISSING_REASON,
        }
    }

    /// What the user or the operator can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::SpecMissing => {
                "give it one with spec.channel.resourceClaimTemplate.name".to_owned()
            }
            Self::Unreadable { .. } => {
                "delete it and create one with spec.channel.resourceClaimTemplate.name".to_owned()
            }
            Self::InvalidTemplateName { .. } => {
                "delete it and create one whose spec.channel.resourceClaimTemplate.name has only lower-case letters, digits, '-' and '.'".to_owned()
            }
            Self::NameTaken { .. } => {
                "create the ComputeDomain again with another spec.channel.resourceClaimTemplate.name; or, if nobody uses that ResourceClaimTemplate, delete it".to_owned()
            }
            Self::BeingDeleted { .. } => {
                "whoever set them has to remove them; nothing else is left of it".to_owned()
            }
            Self::TemplateRefused { .. } => {
                "raise the quota, or have the policy or webhook admit it; it is tried again every minute".to_owned()
            }
            Self::TemplateHeld { template } => format!(
                "see who they belong to with kubectl get resourceclaimtemplate -n {} {} -o jsonpath={{.metadata.finalizers}}",
                template.namespace, template.name
            ),
            // Of parameters that are stored with white space, every patch says so, by anybody.
            Self::TemplateKept { message, .. } if message.contains("immutable") => {
                "if its parameters are stored with white space, nothing can patch it: replace it with the JSON that it was created from, without the finalizer (kubectl replace --raw)".to_owned()
            }
            Self::TemplateKept { .. } => {
                "have the policy or webhook admit it; it is tried again every minute".to_owned()
            }
            Self::TemplateChanged { .. } => {
                "have the mutating policy or webhook leave it as it is; it is tried again every minute".to_owned()
            }
            Self::DriverManaged { removes: true, .. } => {
                "nothing has to be done: they are removed as soon as no ResourceClaim of the ComputeDomain is allocated; suspend jobs that start pods again".to_owned()
            }
            Self::DriverManaged { object, uid, .. } => leftovers_hint(object, uid),
            Self::NoChannelFree { .. } => {
                "delete a ComputeDomain that nobody needs; its channel is free 10 minutes after its last ResourceClaim is gone, and whoever has waited longest gets it".to_owned()
            }
            Self::ChannelRefused { .. } => {
                "in the driver's namespace, raise the quota, have the policy or webhook admit it, or give the controller its rights on Leases back (its Role of the chart); it is tried again every minute".to_owned()
            }
            Self::ChannelsBeingRebuilt => "wait; nothing has to be done".to_owned(),
            Self::ChannelNotConfirmed { channel, .. } => format!(
                "delete the ComputeDomain and create it again; what is wrong with the channel is told by kubectl get lease {} in the driver's namespace",
                channel_lease_name(*channel)
            ),
            Self::ChannelFieldMissing => {
                "apply the CustomResourceDefinition of this chart (crd/)".to_owned()
            }
        }
    }

    /// One line for the condition and the event: what is wrong, why, and what to do.
    // req: CD-16
    pub fn message(&self) -> String {
        match self {
            Self::InvalidTemplateName { source, .. } => {
                format!("{self}: {source}; {}", self.hint())
            }
            _ => format!("{self}; {}", self.hint()),
        }
    }
}

/// Driver-managed daemons may still serve pods, so removing them is the operator's decision.
// req: CD-17
fn leftovers_hint(template: &TemplateRef, uid: &str) -> String {
    let TemplateRef {
        namespace, name, ..
    } = template;
    format!(
        "once no pod uses it, remove what the driver-managed mode left: \
         kubectl delete -n {namespace} daemonset,resourceclaimtemplate {name} --wait=false && \
         kubectl patch -n {namespace} daemonset/{name} resourceclaimtemplate/{name} --type=merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'; \
         kubectl label nodes -l {DOMAIN_LABEL}={uid} {DOMAIN_LABEL}-"
    )
}
