use k8s_openapi::api::resource::v1::ResourceClaimTemplate;

use crate::domain::Domain;
use crate::template::{Role, role};
use crate::template_ref::TemplateRef;

/// The `ResourceClaimTemplates` that concern one ComputeDomain, read from the API server.
#[derive(Clone, Debug, Default)]
pub struct ObservedTemplates {
    /// Every template whose ComputeDomain label has the domain's UID, in any namespace.
    pub with_domain_label: Vec<ResourceClaimTemplate>,
    /// The template with the namespace and the name that the domain's own must have, whoever owns
    /// it. Needed only while the domain is not being deleted.
    pub with_expected_name: Option<ResourceClaimTemplate>,
}

impl ObservedTemplates {
    /// A template that the driver-managed mode created for this domain and that still exists. That
    /// mode creates it before its `DaemonSet`, so templates alone show whether objects remain.
    pub fn driver_managed(&self, domain: &Domain) -> Option<TemplateRef> {
        self.with_role(domain, Role::Daemon)
            .next()
            .map(TemplateRef::new)
    }

    /// The domain's own templates: one, unless somebody copied it.
    pub(crate) fn own(&self, domain: &Domain) -> impl Iterator<Item = &ResourceClaimTemplate> {
        self.with_role(domain, Role::Workload)
    }

    fn with_role(
        &self,
        domain: &Domain,
        wanted: Role,
    ) -> impl Iterator<Item = &ResourceClaimTemplate> {
        let matches = move |template: &&ResourceClaimTemplate| role(template, domain) == wanted;
        self.with_domain_label.iter().filter(matches)
    }
}
