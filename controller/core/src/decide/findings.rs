//! The inputs of a decision besides the objects.

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

/// What one reconcile has found out with requests, because no watch delivers it.
#[derive(Clone, Debug)]
pub struct Findings {
    /// Why the API server rejects the template or the Lease of its channel.
    pub refusal: Option<Rejection>,
    /// The namespaces in which the API server has no ComputeDomain of this UID.
    pub absent_in: Vec<Box<str>>,
    /// Our template that has lost its label, or whose label was changed on admission.
    pub unlabelled: Option<ObservedTemplate>,
    /// Whether the API server has no template of the wanted name, or one of another owner.
    pub has_no_template: bool,
    /// What the API server stores for the template that we would create, if known.
    pub stored: Option<Content>,
    /// The templates whose deletion or release the API server rejects, by UID, with its message.
    pub kept: BTreeMap<Box<str>, String>,
    /// The fields of the CRD, as far as known.
    pub schema: StatusSchema,
    /// Whether new templates share the nodes' devices.
    pub sharing: Sharing,
    /// Whether the probe for the CRD's channel field was done.
    pub channel_tried: bool,
    /// The claims that wait.
    pub waiting: Waiting,
    /// The nodes of its claims.
    pub nodes: Nodes,
}

// === impl Findings ===

impl Findings {
    /// The findings before the first request.
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

    /// The content of the status with this admission.
    pub fn report(&self, domain: &Domain, admission: Admission) -> Report {
        // Without a template there are no claims.
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

    /// Whether the API server rejects changes of this template.
    pub(super) fn keeps(&self, template: &TemplateRef) -> bool {
        self.kept.contains_key(&template.uid)
    }
}
