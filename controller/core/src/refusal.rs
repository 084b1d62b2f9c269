use crate::TemplateRef;
use crate::name::TemplateNameError;

/// Why a ComputeDomain is not admitted. It is a state, shown in the status until it ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The CRD lets an object have no spec.
    #[error("the ComputeDomain has no spec")]
    SpecMissing,
    /// Its spec or status does not fit the CRD: stored before the CRD was what it is.
    #[error("the ComputeDomain cannot be read: {why}")]
    Unreadable {
        /// The decoder's words.
        why: String,
    },
    /// No object can have the name that its template should get.
    #[error("{name:?} cannot be the name of a ResourceClaimTemplate")]
    BadTemplateName {
        /// As the user wrote it.
        name: String,
        /// What is wrong with it.
        #[source]
        source: TemplateNameError,
    },
    /// A template of that name exists and is not this ComputeDomain's.
    #[error("a ResourceClaimTemplate {name:?} exists and belongs to {owner}")]
    NameTaken {
        /// The name.
        name: String,
        /// Whose it is, in words.
        owner: String,
    },
    /// The driver-managed mode still serves it.
    #[error("the ComputeDomain is still driver-managed: {leftover} exists")]
    DriverManaged {
        /// An object of that mode.
        leftover: TemplateRef,
    },
}

impl Refusal {
    /// Reason of the event and of the condition. Stable.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::SpecMissing => "SpecMissing",
            Self::Unreadable { .. } => "Unreadable",
            Self::BadTemplateName { .. } => "InvalidTemplateName",
            Self::NameTaken { .. } => "TemplateNameTaken",
            Self::DriverManaged { .. } => "DriverManagedLeftovers",
        }
    }

    /// What its user or operator changes.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::SpecMissing | Self::Unreadable { .. } => {
                "delete it and create one with spec.channel.resourceClaimTemplate.name"
            }
            Self::BadTemplateName { .. } => {
                "delete it and create one whose spec.channel.resourceClaimTemplate.name has only lower-case letters, digits, '-' and '.'"
            }
            Self::NameTaken { .. } => {
                "delete that ResourceClaimTemplate, or create the ComputeDomain anew with another spec.channel.resourceClaimTemplate.name"
            }
            Self::DriverManaged { .. } => {
                "switch back to the driver-managed mode, delete the ComputeDomain there, and switch again"
            }
        }
    }

    /// One line for the condition and the event: what, why, and the fix.
    pub fn message(&self) -> String {
        match self {
            Self::BadTemplateName { source, .. } => format!("{self}: {source}; {}", self.hint()),
            _ => format!("{self}; {}", self.hint()),
        }
    }

    /// Whether it may end without a change that the controller watches.
    pub fn ends_unseen(&self) -> bool {
        matches!(self, Self::NameTaken { .. })
    }
}
