//! Requests for the objects of cliques in driver-managed mode, and for Nodes.

use compute_domain_api::clique::ComputeDomainClique;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::PostParams;

use super::{ApiClient, CONTROLLER_NAME, RequestError, delete_only, failed_to, was_there};

// === impl ApiClient ===

impl ApiClient {
    /// The UID of the Node of this name; `None` if there is none. Read from storage, not from a cache of the API
    /// server.
    pub(crate) async fn node_uid(&self, node: &str) -> Result<Option<String>, RequestError> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let found = nodes.get_metadata_opt(node).await;
        let found = found.map_err(failed_to("read the Node"))?;
        Ok(found.and_then(|node| node.metadata.uid))
    }

    /// Creates the object of a clique. Fails if one of its name exists.
    pub(crate) async fn create_clique(
        &self,
        clique: &ComputeDomainClique,
    ) -> Result<ComputeDomainClique, RequestError> {
        let action = "create the ComputeDomainClique";
        self.check_fence(action)?;
        let created = self.cliques().create(&written(), clique).await;
        created.map_err(failed_to(action))
    }

    /// The object of this clique; `None` if there is none.
    pub(crate) async fn clique(
        &self,
        clique: &str,
    ) -> Result<Option<ComputeDomainClique>, RequestError> {
        let found = self.cliques().get_opt(clique).await;
        found.map_err(failed_to("read the ComputeDomainClique"))
    }

    /// Replaces the object of this name, if its version is unchanged.
    pub(crate) async fn replace_clique(
        &self,
        clique: &ComputeDomainClique,
    ) -> Result<ComputeDomainClique, RequestError> {
        let action = "replace the ComputeDomainClique";
        self.check_fence(action)?;
        let name = clique.metadata.name.as_deref().unwrap_or_default();
        let replaced = self.cliques().replace(name, &written(), clique).await;
        replaced.map_err(failed_to(action))
    }

    /// Deletes this object, if its version is unchanged. A missing object is not an error.
    pub(crate) async fn delete_clique(
        &self,
        clique: &str,
        uid: &str,
        resource_version: &str,
    ) -> Result<(), RequestError> {
        let action = "delete the ComputeDomainClique";
        self.check_fence(action)?;
        let params = delete_only(uid, Some(resource_version));
        was_there(action, self.cliques().delete(clique, &params).await).map(drop)
    }

    /// Deletes the pod of a daemon, if it has this UID and, if given, this version. A missing pod is not an error.
    pub(crate) async fn delete_daemon_pod(
        &self,
        name: &str,
        uid: &str,
        version: Option<&str>,
    ) -> Result<(), RequestError> {
        let action = "delete the pod of the IMEX daemon";
        self.check_fence(action)?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let deleted = pods.delete(name, &delete_only(uid, version)).await;
        was_there(action, deleted).map(drop)
    }

    fn cliques(&self) -> Api<ComputeDomainClique> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

fn written() -> PostParams {
    PostParams {
        field_manager: Some(CONTROLLER_NAME.to_owned()),
        ..PostParams::default()
    }
}
