//! The publisher's requests to the API server, each with a deadline.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::api::{Api, DeleteParams, ListParams, PostParams, Preconditions};

use super::SliceError;
use super::error::status;
use super::plan::{Stage, Step};
use super::seen::name;
use crate::observer::Observer;

/// One request may take this long.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Requests of one stage in flight: a pool of several slices is invisible to the
/// scheduler while its generation changes, so that should be short.
const SIDE_BY_SIDE: usize = 16;

/// A kind of request: the word that it is counted under, and the clause that says
/// what could not be done.
#[derive(Clone, Copy)]
struct Verb {
    word: &'static str,
    verb: &'static str,
}

const LIST: Verb = Verb::new("list", "list ResourceSlices");
const VERSION: Verb = Verb::new("get-version", "get the version");
const NODE: Verb = Verb::new("get-node", "get the Node");
const CREATE: Verb = Verb::new("create", "create the ResourceSlice");
const UPDATE: Verb = Verb::new("update", "update the ResourceSlice");
const DELETE: Verb = Verb::new("delete", "delete a ResourceSlice");

impl Verb {
    const fn new(word: &'static str, verb: &'static str) -> Self {
        Self { word, verb }
    }
}

/// What came of a step: the slice as it is stored now, or the name that is gone.
pub(super) enum Done {
    Stored(Box<ResourceSlice>),
    Deleted(String),
}

/// The slices of one driver and node.
pub(super) struct Requests {
    client: kube::Client,
    slices: Api<ResourceSlice>,
    nodes: Api<Node>,
    selector: String,
    observer: Arc<dyn Observer>,
}

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

    pub(super) fn slices(&self) -> Api<ResourceSlice> {
        self.slices.clone()
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

    /// A list answered with 404 means that the API server has no such group and
    /// version; its own version makes the error clearer, where it is to be had.
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

    /// Runs all steps, whatever becomes of the others.
    pub(super) async fn run(&self, stage: Stage) -> Vec<Result<Done, SliceError>> {
        stream::iter(stage)
            .map(|step| self.step(step))
            .buffer_unordered(SIDE_BY_SIDE)
            .collect()
            .await
    }

    async fn step(&self, step: Step) -> Result<Done, SliceError> {
        let params = PostParams::default();
        match step {
            Step::Create(slice) => {
                let create = self.slices.create(&params, &slice);
                let stored = self.request(CREATE, create).await?;
                tracing::info!(slice = name(&stored), "created ResourceSlice");
                Ok(Done::Stored(Box::new(stored)))
            }
            Step::Replace(slice) => {
                let replace = self.slices.replace(name(&slice), &params, &slice);
                let stored = self.request(UPDATE, replace).await?;
                tracing::info!(slice = name(&stored), "updated ResourceSlice");
                Ok(Done::Stored(Box::new(stored)))
            }
            Step::Delete(slice) => {
                self.delete(&slice).await?;
                Ok(Done::Deleted(name(&slice).to_owned()))
            }
        }
    }

    async fn request<T>(
        &self,
        verb: Verb,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, SliceError> {
        let Verb { word, verb } = verb;
        let began = Instant::now();
        let outcome = match tokio::time::timeout(TIMEOUT, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(source)) => Err(SliceError::Api {
                verb,
                source: Box::new(source),
            }),
            Err(_) => Err(SliceError::TimedOut { verb }),
        };
        let seen = outcome.as_ref().map(|_| ()).map_err(SliceError::code);
        self.observer.slice_request(word, seen, began.elapsed());
        outcome
    }

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
