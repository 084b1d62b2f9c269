use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// A reference to an existing `ResourceClaimTemplate` for requests.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TemplateRef {
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// Its UID. A request must not change another object of the same name.
    pub uid: Box<str>,
}

impl TemplateRef {
    /// The object with this metadata.
    pub fn new(metadata: &ObjectMeta) -> Self {
        let text = |field: &Option<String>| field.as_deref().unwrap_or_default().into();
        Self {
            namespace: text(&metadata.namespace),
            name: text(&metadata.name),
            uid: text(&metadata.uid),
        }
    }
}

impl fmt::Display for TemplateRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResourceClaimTemplate {}/{}", self.namespace, self.name)
    }
}
