use std::fmt;

use k8s_openapi::api::resource::v1::ResourceClaimTemplate;

/// A `ResourceClaimTemplate` that exists, as a request addresses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID: a request must not reach another object that has the same name by now.
    pub uid: String,
}

impl TemplateRef {
    pub(crate) fn new(template: &ResourceClaimTemplate) -> Self {
        let metadata = &template.metadata;
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
        }
    }
}

impl fmt::Display for TemplateRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResourceClaimTemplate {}/{}", self.namespace, self.name)
    }
}
