//! What a decision knows besides the objects.

use crate::content::Content;
use crate::observed_template::ObservedTemplate;
use crate::rejection::Rejection;
use crate::status::StatusSchema;

/// What one reconcile has found out by its requests, and the watches do not tell.
#[derive(Clone, Debug)]
pub struct Findings {
    /// Why the API server does not let us create the template.
    pub refusal: Option<Rejection>,
    /// The namespaces in which the API server has no ComputeDomain of this UID.
    pub absent_in: Vec<Box<str>>,
    /// A template of ours whose label somebody has removed.
    pub unlabelled: Option<ObservedTemplate>,
    /// Whether the API server has no template of the wanted name, or that of somebody else.
    pub has_no_template: bool,
    /// What the API server stores for the template that we would create; `None`: not known.
    pub stored: Option<Content>,
    /// The fields that the CRD has.
    pub schema: StatusSchema,
}

// === impl Findings ===

impl Findings {
    /// Before the first request.
    pub fn new(schema: StatusSchema) -> Self {
        Self {
            refusal: None,
            absent_in: Vec::new(),
            unlabelled: None,
            has_no_template: false,
            stored: None,
            schema,
        }
    }
}
