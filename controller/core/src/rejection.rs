use compute_domain_api::names::{CHANNEL_NOT_CONFIRMED_REASON, DOMAIN_LABEL, channel_lease_name};

use crate::template_name::TemplateNameError;
use crate::template_ref::TemplateRef;

/// Reason of [`Rejection::NameTaken`].
pub(crate) const NAME_TAKEN_REASON: &str = "TemplateNameTaken";

/// Reason of the condition of a ComputeDomain that has just been assigned its channel.
pub(crate) const CHANNEL_ASSIGNED_REASON: &str = "ChannelAssigned";

const NO_CHANNEL_FREE_REASON: &str = "NoChannelFree";
const CHANNEL_REFUSED_REASON: &str = "ChannelRefused";
const CHANNELS_BEING_REBUILT_REASON: &str = "ChannelsBeingRebuilt";
const CHANNEL_FIELD_MISSING_REASON: &str = "ChannelFieldMissing";

/// The reasons of a ComputeDomain that waits for a channel or has just been assigned one.
pub(crate) const CHANNEL_REASONS: [&str; 5] = [
    CHANNEL_ASSIGNED_REASON,
    NO_CHANNEL_FREE_REASON,
    CHANNEL_REFUSED_REASON,
    CHANNELS_BEING_REBUILT_REASON,
    CHANNEL_FIELD_MISSING_REASON,
];

/// Why a ComputeDomain is not admitted. It is not an error of the controller: the status reports
/// it as long as it applies.
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
        /// Why it is not valid.
        #[source]
        source: TemplateNameError,
    },
    /// A template of that name exists and does not belong to this ComputeDomain.
    #[error("ResourceClaimTemplate {name:?} already exists and belongs to {owner}")]
    NameTaken {
        /// The name.
        name: String,
        /// Its owner, as the end of a sentence.
        owner: String,
    },
    /// The API server rejects the template: because of a quota, a policy or a webhook.
    #[error("the API server rejects the ResourceClaimTemplate: {message}")]
    TemplateRefused {
        /// The API server's message.
        message: String,
    },
    /// The template is being deleted, and other finalizers keep it.
    #[error("{template} is being deleted, but still has finalizers of other programs")]
    TemplateHeld {
        /// The template.
        template: TemplateRef,
    },
    /// The API server rejects the deletion of the template, or the removal of our finalizer.
    #[error(
        "the API server rejects the deletion of {template} or the removal of its finalizer: {message}"
    )]
    TemplateKept {
        /// The template.
        template: TemplateRef,
        /// The API server's message.
        message: String,
    },
    /// The API server stores another template than the controller sends, also when it is created again.
    #[error("a policy or webhook changes {template} each time the controller creates it")]
    TemplateChanged {
        /// The template.
        template: TemplateRef,
    },
    /// It is being deleted, its template is deleted, and other finalizers keep it.
    #[error("the deletion of the ComputeDomain waits for finalizers of other programs: {}", finalizers.join(", "))]
    BeingDeleted {
        /// These finalizers.
        finalizers: Vec<String>,
    },
    /// Objects of the Go driver's driver-managed mode still exist for it.
    #[error(
        "objects of the Go driver's driver-managed mode still exist for the ComputeDomain: {object}"
    )]
    DriverManaged {
        /// One of these objects.
        object: TemplateRef,
        /// UID of the ComputeDomain.
        uid: String,
        /// Whether this driver removes them.
        removes: bool,
    },
    /// Every channel has a Lease, or was released less than a cool-down ago.
    #[error("all {} IMEX channels are in use or were released less than 10 minutes ago", .count)]
    NoChannelFree {
        /// The number of channels that can be assigned.
        count: usize,
    },
    /// The API server rejects the Lease of a channel: because of a quota, a policy, a webhook or missing
    /// permissions.
    #[error("the API server rejects the Lease of an IMEX channel: {message}")]
    ChannelRefused {
        /// The API server's message.
        message: String,
    },
    /// Leases of channels were deleted: the owners of the channels are not certain yet.
    #[error(
        "Leases of IMEX channels were deleted and are being created again; no channel is assigned until 10 minutes after they are created"
    )]
    ChannelsBeingRebuilt,
    /// The channel in the status is not the domain's.
    #[error("IMEX channel {channel} in the status of {domain} belongs to {holder}")]
    ChannelNotConfirmed {
        /// The channel.
        channel: u32,
        /// The ComputeDomain that has it in its status, with its UID.
        domain: String,
        /// Its owner, as the end of a sentence.
        holder: String,
    },
    /// The CRD on the API server is older than this controller.
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

    /// What the user or the administrator can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::SpecMissing => {
                "add a spec with spec.channel.resourceClaimTemplate.name".to_owned()
            }
            Self::Unreadable { .. } => {
                "delete the ComputeDomain and create one with spec.channel.resourceClaimTemplate.name".to_owned()
            }
            Self::InvalidTemplateName { .. } => {
                "delete the ComputeDomain and create one whose spec.channel.resourceClaimTemplate.name has only lower-case letters, digits, '-' and '.'".to_owned()
            }
            Self::NameTaken { .. } => {
                "recreate the ComputeDomain with another spec.channel.resourceClaimTemplate.name, or delete that ResourceClaimTemplate if it is not in use".to_owned()
            }
            Self::BeingDeleted { .. } => {
                "the programs that set these finalizers must remove them; nothing else delays the deletion".to_owned()
            }
            Self::TemplateRefused { .. } => {
                "raise the quota, or let the policy or webhook admit the ResourceClaimTemplate; the controller retries every minute".to_owned()
            }
            Self::TemplateHeld { template } => format!(
                "list the finalizers with kubectl get resourceclaimtemplate -n {} {} -o jsonpath={{.metadata.finalizers}}",
                template.namespace, template.name
            ),
            // The API server gives this answer to every patch of a template if its parameters have white space.
            Self::TemplateKept { message, .. } if message.contains("immutable") => {
                "a template whose opaque parameters were stored with white space cannot be patched: replace the template with its original JSON, without the finalizer (kubectl replace --raw)".to_owned()
            }
            Self::TemplateKept { .. } => {
                "let the policy or webhook admit the request; the controller retries every minute".to_owned()
            }
            Self::TemplateChanged { .. } => {
                "exclude the template from the mutating policy or webhook; the controller retries every minute".to_owned()
            }
            Self::DriverManaged { removes: true, .. } => {
                "wait: the controller removes these objects when no ResourceClaim of the ComputeDomain is allocated; suspend jobs that recreate pods".to_owned()
            }
            Self::DriverManaged { object, uid, .. } => leftovers_hint(object, uid),
            Self::NoChannelFree { .. } => {
                "delete an unneeded ComputeDomain; 10 minutes after its last ResourceClaim is deleted, its channel goes to the oldest waiting ComputeDomain".to_owned()
            }
            Self::ChannelRefused { .. } => {
                "in the driver's namespace, raise the quota, let the policy or webhook admit the Lease, or restore the controller's permissions for Leases (the Role of the chart); the controller retries every minute".to_owned()
            }
            Self::ChannelsBeingRebuilt => "no action is needed; wait".to_owned(),
            Self::ChannelNotConfirmed { channel, .. } => format!(
                "delete the ComputeDomain and create it again; to see the owner of the channel, run kubectl get lease {} -o yaml in the driver's namespace",
                channel_lease_name(*channel)
            ),
            Self::ChannelFieldMissing => {
                "apply the CustomResourceDefinitions of this chart (crd/)".to_owned()
            }
        }
    }

    /// One line for the condition and the event: the problem, its cause and what to do.
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

/// The Go driver's IMEX daemons may still serve pods, so the administrator decides when to remove them.
// req: CD-17
fn leftovers_hint(template: &TemplateRef, uid: &str) -> String {
    let TemplateRef {
        namespace, name, ..
    } = template;
    format!(
        "once no pod uses these objects, remove them, their finalizers and the node label: \
         kubectl delete -n {namespace} daemonset,resourceclaimtemplate {name} --wait=false && \
         kubectl patch -n {namespace} daemonset/{name} resourceclaimtemplate/{name} --type=merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'; \
         kubectl label nodes -l {DOMAIN_LABEL}={uid} {DOMAIN_LABEL}-"
    )
}
