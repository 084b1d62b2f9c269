//! The publisher's requests to the API server, each with a timeout.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::api::{Api, DeleteParams, ListParams, PostParams, Preconditions};

use super::cache::name;
use super::error::{SliceError, status};
use super::plan::{Stage, Step};
use crate::observer::Observer;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Limit of concurrent requests of one stage. Requests are concurrent because a pool of
/// several slices is invisible to the scheduler while its generation changes.
const MAX_IN_FLIGHT: usize = 16;

#[derive(Clone, Copy)]
struct Kind {
    /// The metric label.
    label: &'static str,
    /// The action, for the error message `cannot {action}`.
    action: &'static str,
}

/// The result of a step: the stored slice, or the name of the deleted one.
pub(super) enum Applied {
    Stored(Box<ResourceSlice>),
    Deleted(String),
}

/// A client for the slices of one driver and node.
pub(super) struct Requests {
    client: kube::Client,
    slices: Api<ResourceSlice>,
    nodes: Api<Node>,
    selector: String,
    observer: Arc<dyn Observer>,
}

const LIST: Kind = Kind::new("list", "list ResourceSlices");
const VERSION: Kind = Kind::new("get-version", "get the version of the API server");
const NODE: Kind = Kind::new("get-node", "get the Node");
const CREATE: Kind = Kind::new("create", "create the ResourceSlice");
const UPDATE: Kind = Kind::new("update", "update the ResourceSlice");
const DELETE: Kind = Kind::new("delete", "delete a ResourceSlice");

// === impl Kind ===

impl Kind {
    const fn new(label: &'static str, action: &'static str) -> Self {
        Self { label, action }
    }
}

// === impl Requests ===

impl Requests {
    pub(super) fn new(
        client: kube::Client,
        driver: &str,
        node: &str,
        observer: Arc<dyn Observer>,
    ) -> Self {
        Self {
            slices: Api::all(client.clone()),
            nodes: Api::all(client.clone()),
            selector: format!("spec.driver={driver},spec.nodeName={node}"),
            client,
            observer,
        }
    }

    pub(super) fn client(&self) -> &kube::Client {
        &self.client
    }

    pub(super) fn selector(&self) -> &str {
        &self.selector
    }

    pub(super) async fn list(&self) -> Result<Vec<ResourceSlice>, SliceError> {
        let params = ListParams::default().fields(&self.selector);
        match self.request(LIST, self.slices.list(&params)).await {
            Ok(list) => Ok(list.items),
            Err(error) if error.status() == Some(404) => Err(self.not_served().await),
            Err(error) => Err(error),
        }
    }

    /// Returns the error for a list that got 404: the API server does not serve this API
    /// version. It names the server's version, if that can be read.
    pub(super) async fn not_served(&self) -> SliceError {
        let version = self.request(VERSION, self.client.apiserver_version()).await;
        let version = version.ok().map(|info| info.git_version);
        SliceError::NotServed { version }
    }

    pub(super) async fn node_uid(&self, node: &str) -> Result<String, SliceError> {
        let found = self
            .request(NODE, self.nodes.get_metadata_opt(node))
            .await?;
        let uid = found.and_then(|node| node.metadata.uid);
        uid.ok_or_else(|| SliceError::NoNode {
            node: node.to_owned(),
        })
    }

    /// Runs all steps of a stage, even if some fail.
    pub(super) async fn run(&self, stage: Stage) -> Vec<Result<Applied, SliceError>> {
        stream::iter(stage)
            .map(|step| self.step(step))
            .buffer_unordered(MAX_IN_FLIGHT)
            .collect()
            .await
    }

    async fn step(&self, step: Step) -> Result<Applied, SliceError> {
        let params = PostParams::default();
        match step {
            Step::Create(slice) => {
                let create = self.slices.create(&params, &slice);
                let created = self.request(CREATE, create).await;
                let stored = created.map_err(|error| error.if_name_taken(name(&slice)))?;
                tracing::info!(slice = name(&stored), "created ResourceSlice");
                Ok(Applied::Stored(Box::new(stored)))
            }
            Step::Replace(slice) => {
                let replace = self.slices.replace(name(&slice), &params, &slice);
                let stored = self.request(UPDATE, replace).await?;
                tracing::info!(slice = name(&stored), "updated ResourceSlice");
                Ok(Applied::Stored(Box::new(stored)))
            }
            Step::Delete(slice) => {
                self.delete(&slice).await?;
                Ok(Applied::Deleted(name(&slice).to_owned()))
            }
        }
    }

    async fn request<T>(
        &self,
        kind: Kind,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, SliceError> {
        let Kind { label, action } = kind;
        let began = Instant::now();
        let outcome = match tokio::time::timeout(TIMEOUT, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(source)) => Err(SliceError::Api {
                action,
                source: Box::new(source),
            }),
            Err(_) => Err(SliceError::TimedOut { action }),
        };
        let result = outcome.as_ref().map(|_| ()).map_err(SliceError::code);
        self.observer.slice_request(label, result, began.elapsed());
        outcome
    }

    // req: KUBELET-53
    async fn delete(&self, slice: &ResourceSlice) -> Result<(), SliceError> {
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: slice.metadata.uid.clone(),
            resource_version: slice.metadata.resource_version.clone(),
        });
        let delete = self.slices.delete(name(slice), &params);
        match self.request(DELETE, delete).await {
            Err(SliceError::Api { source, .. }) if status(&source) == Some(404) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => {
                tracing::info!(slice = name(slice), "deleted ResourceSlice");
                Ok(())
            }
        }
    }
}
