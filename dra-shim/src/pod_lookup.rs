//! What the API server knows of the pods that a claim was prepared for: asked when the
//! claim itself is gone. A claim can be deleted while its pod runs, by whoever strips its
//! finalizers, and the pod's containers keep the device all the same.

use compute_domain_node::{PodName, Presence};
use imex_runtime::error_chain;
use k8s_openapi::api::core::v1::Pod;
use kube::api::GetParams;
use kube::core::Request;
use kube::{Client, Resource as _};
use serde::Deserialize;
use tracing::warn;

use crate::named_object::{is_path_segment, says_gone};

/// Asks the API server about pods. Cheap to clone.
#[derive(Clone)]
pub(crate) struct PodLookup {
    client: Client,
}

/// The part of a pod that is read. Every other field may be anything.
#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize)]
struct Metadata {
    uid: String,
}

#[derive(Default, Deserialize)]
struct PodStatus {
    #[serde(default)]
    phase: String,
}

// === impl PodLookup ===

impl PodLookup {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// Whether one of the pods has not ended: one GET for each until one is found.
    pub(crate) async fn presence(&self, pods: &[PodName]) -> Presence {
        for pod in pods {
            let presence = self.presence_of(pod).await;
            if presence != Presence::Absent {
                return presence;
            }
        }
        Presence::Absent
    }

    async fn presence_of(&self, pod: &PodName) -> Presence {
        // From a file that others may have written.
        if !is_path_segment(&pod.namespace) || !is_path_segment(&pod.name) {
            return Presence::Absent;
        }
        match self.get(pod).await {
            Ok(object) if object.metadata.uid == pod.uid && !object.status.is_final() => {
                Presence::Present
            }
            Ok(_) => Presence::Absent,
            Err(kube::Error::Api(status)) if says_gone(&status, &Pod::plural(&()), &pod.name) => {
                Presence::Absent
            }
            Err(error) => {
                let error = error_chain(&error);
                warn!(%pod, error, "cannot find out whether a pod has ended whose claim is gone");
                Presence::Unknown
            }
        }
    }

    async fn get(&self, pod: &PodName) -> Result<Object, kube::Error> {
        let path = Pod::url_path(&(), Some(&pod.namespace));
        let request = Request::new(path)
            .get(&pod.name, &GetParams::default())
            .map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }
}

// === impl PodStatus ===

impl PodStatus {
    /// Whether kubelet has stopped all containers.
    fn is_final(&self) -> bool {
        matches!(self.phase.as_str(), "Succeeded" | "Failed")
    }
}
