//! Requests for the nodes' labels with their NVLink clique.

use std::collections::HashMap;

use compute_domain_api::names::CLIQUE_LABEL;
use compute_domain_core::LabelWrite;
use daemon_runtime::{Part, for_each_page};
use k8s_openapi::api::core::v1::Node;
use kube::Resource as _;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::{Request, Status};
use serde_json::json;

use super::{ApiClient, RawMetadata, RequestError, failed_to};

/// Field manager of the label, and of nothing else: a label that it no longer applies is removed.
const LABELLER: &str = "compute-domain-controller-clique-label";

/// Reason of the API server if another field manager owns a field.
const OTHER_OWNER: &str = "FieldManagerConflict";

/// The result of writing a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Labelled {
    /// The node has the label.
    Written,
    /// Another field manager owns it, with another value.
    OwnedByOthers,
}

// === impl ApiClient ===

impl ApiClient {
    /// Lists the labels of nodes.
    pub(crate) async fn clique_labels(&self) -> Result<HashMap<Box<str>, Box<str>>, RequestError> {
        let mut found = HashMap::new();
        let labelled = ListParams::default().labels(CLIQUE_LABEL);
        let visit = |page: Vec<RawMetadata<Node>>| {
            for mut node in page {
                let metadata = node.meta_mut();
                let labels = metadata.labels.as_mut();
                let label = labels.and_then(|labels| labels.remove(CLIQUE_LABEL));
                if let (Some(name), Some(label)) = (metadata.name.take(), label) {
                    found.insert(name.into(), label.into());
                }
            }
            true
        };
        let url_path = Node::url_path(&(), None);
        for_each_page(&self.client, &url_path, Part::Metadata, labelled, visit)
            .await
            .map_err(failed_to("list the labels of nodes"))?;
        Ok(found)
    }

    /// Sets a node's label, or removes ours. A label with another owner is left unchanged.
    pub(crate) async fn apply_clique_label(
        &self,
        write: &LabelWrite,
    ) -> Result<Labelled, RequestError> {
        let action = "write the label of the node";
        self.check_fence(action)?;
        // The UID prevents the apply from creating a node, or changing another one of this name.
        let mut metadata = json!({ "name": write.node, "uid": write.uid });
        if let (Some(clique), Some(fields)) = (&write.clique, metadata.as_object_mut()) {
            fields.insert("labels".to_owned(), json!({ CLIQUE_LABEL: **clique }));
        }
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": metadata });
        // Not forced: it fails if another field manager owns the label.
        let params = PatchParams::apply(LABELLER);
        let request = Request::new(Node::url_path(&(), None))
            .patch_metadata(&write.node, &params, &Patch::Apply(node))
            .map_err(kube::Error::BuildRequest)
            .map_err(failed_to(action))?;
        match self.client.request_text(request).await {
            Ok(_) => Ok(Labelled::Written),
            Err(kube::Error::Api(status)) if has_other_owner(&status) => {
                Ok(Labelled::OwnedByOthers)
            }
            Err(err) => Err(failed_to(action)(err)),
        }
    }
}

fn has_other_owner(status: &Status) -> bool {
    let details = status.details.as_ref();
    let mut causes = details.into_iter().flat_map(|details| &details.causes);
    status.is_conflict() && causes.any(|cause| cause.reason == OTHER_OWNER)
}
