//! What a decision knows besides the objects.

use std::collections::BTreeMap;

use compute_domain_api::Sharing;

use crate::content::Content;
use crate::domain::Domain;
use crate::nodes::Nodes;
use crate::observed_template::ObservedTemplate;
use crate::rejection::Rejection;
use crate::status::{Admission, Report, StatusSchema};
use crate::template_ref::TemplateRef;
use crate::waiting::Waiting;

/// What one reconcile has found out by its requests, and the watches do not tell.
#[derive(Clone, Debug)]
pub struct Findings {
    /// Why the API server does not let us create the template, or the Lease of its channel.
    pub refusal: Option<Rejection>,
    /// The namespaces in which the API server has no ComputeDomain of this UID.
    pub absent_in: Vec<Box<str>>,
    /// A template of ours whose label somebody has removed, or changed when we created it.
    pub unlabelled: Option<ObservedTemplate>,
    /// Whether the API server has no template of the wanted name, or that of somebody else.
    pub has_no_template: bool,
    /// What the API server stores for the template that we would create; `None`: not known.
    pub stored: Option<Content>,
    /// The templates that the API server does not let us delete or release, by UID, with what it says.
    pub kept: BTreeMap<Box<str>, String>,
    /// The fields that the CRD has, as far as it was tried.
    pub schema: StatusSchema,
    /// Whether new templates share the nodes' devices.
    pub sharing: Sharing,
    /// Whether it was tried whether the CRD has the field of the channel.
    pub channel_tried: bool,
    /// The claims that wait.
    pub waiting: Waiting,
    /// The nodes of its claims.
    pub nodes: Nodes,
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
            kept: BTreeMap::new(),
            schema,
            sharing: Sharing::One,
            channel_tried: false,
            waiting: Waiting::default(),
            nodes: Nodes::default(),
        }
    }

    /// What the status is to say, when this is the admission.
    pub fn report(&self, domain: &Domain, admission: Admission) -> Report {
        // No claim is made from a template that does not exist.
        let notice = match admission {
            Admission::Admitted | Admission::NotIsolated => self.waiting.notice(domain),
            Admission::Assigned(_) | Admission::Rejected(_) => None,
        };
        Report {
            admission,
            notice,
            nodes: self.nodes.clone(),
        }
    }

    /// Whether nothing can be done about this template at the moment.
    pub(super) fn keeps(&self, template: &TemplateRef) -> bool {
        self.kept.contains_key(&template.uid)
    }
}
