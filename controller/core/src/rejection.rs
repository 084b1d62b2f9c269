use crate::template_name::TemplateNameError;
use crate::template_ref::TemplateRef;

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
    /// Objects of the driver-managed mode still exist for it.
    #[error("the ComputeDomain is still driver-managed: {object} exists")]
    DriverManaged {
        /// One of these objects.
        object: TemplateRef,
    },
}

impl Rejection {
    /// Reason of the event and of the condition. Stable.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::SpecMissing => "SpecMissing",
            Self::Unreadable { .. } => "Unreadable",
            Self::InvalidTemplateName { .. } => "InvalidTemplateName",
            Self::NameTaken { .. } => "TemplateNameTaken",
            Self::DriverManaged { .. } => "DriverManagedLeftovers",
        }
    }

    /// What the user or the operator can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::SpecMissing | Self::Unreadable { .. } => {
                "delete it and create one with spec.channel.resourceClaimTemplate.name"
            }
            Self::InvalidTemplateName { .. } => {
                "delete it and create one whose spec.channel.resourceClaimTemplate.name has only lower-case letters, digits, '-' and '.'"
            }
            Self::NameTaken { .. } => {
                "delete that ResourceClaimTemplate, or create the ComputeDomain again with another spec.channel.resourceClaimTemplate.name"
            }
            Self::DriverManaged { .. } => {
                "switch back to the driver-managed mode, delete the ComputeDomain there, and switch again"
            }
        }
    }

    /// One line for the condition and the event: what is wrong, why, and what to do.
    pub fn message(&self) -> String {
        match self {
            Self::InvalidTemplateName { source, .. } => {
                format!("{self}: {source}; {}", self.hint())
            }
            _ => format!("{self}; {}", self.hint()),
        }
    }

    /// Whether the cause can go away without an event of the controller's watches, so that only
    /// another reconcile finds out: a template without the ComputeDomain label is not watched.
    pub fn is_unwatched(&self) -> bool {
        matches!(self, Self::NameTaken { .. })
    }
}
