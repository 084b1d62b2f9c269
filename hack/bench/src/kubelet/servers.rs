//! The subject and the floor, on their own threads, as kubelet is another process.

use std::path::PathBuf;

use anyhow::Context as _;
use dra_kubelet::{
    Claim, ClaimError, ClaimRef, ClaimSource, Context, Driver, GetClaimError, Plugin,
    PreparedDevice,
};
use futures_util::stream;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::runtime::{Builder, Runtime};
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use super::claim::claim_json;
use crate::dra_caller::service_socket;
use crate::dra_proto as proto;
use crate::dra_proto::dra_plugin_server::{DraPlugin, DraPluginServer};

const DRIVER: &str = "bench.example.com";

pub(super) struct Servers {
    root: TempDir,
    _plugin: Plugin,
    /// Last field, so that the plugin is dropped before its threads.
    _runtime: Runtime,
}

impl Servers {
    pub(super) fn start() -> anyhow::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let context = runtime.enter();
        let root = tempfile::tempdir()?;
        let plugin = Plugin::builder(DRIVER, "node-1")
            .kubelet_root(root.path())
            .start(AtOnce, InMemory)?;
        let listener = UnixListener::bind(root.path().join("floor.sock"))?;
        let accepted = stream::unfold(listener, |listener| async {
            let stream = listener.accept().await.map(|(stream, _)| stream);
            Some((stream, listener))
        });
        let echo = Server::builder().add_service(DraPluginServer::new(Echo));
        runtime.spawn(echo.serve_with_incoming(accepted));
        drop(context);
        Ok(Self {
            root,
            _plugin: plugin,
            _runtime: runtime,
        })
    }

    pub(super) fn subject(&self) -> anyhow::Result<PathBuf> {
        service_socket(&self.root.path().join("plugins").join(DRIVER))
            .context("dra-kubelet has not opened a service socket")
    }

    pub(super) fn floor(&self) -> PathBuf {
        self.root.path().join("floor.sock")
    }
}

/// A driver that does nothing.
struct AtOnce;

impl Driver for AtOnce {
    async fn prepare(&self, _: &Context, claim: &Claim) -> Result<Vec<PreparedDevice>, ClaimError> {
        let cdi_id = format!("{DRIVER}/claim={}", claim.id.uid);
        let results = claim.results.iter();
        Ok(results
            .map(|result| PreparedDevice::from_result(result, vec![cdi_id.clone()]))
            .collect())
    }

    async fn unprepare(&self, _: &Context, _: &ClaimRef) -> Result<(), ClaimError> {
        Ok(())
    }
}

/// Every claim exists; its UID is its name.
struct InMemory;

impl ClaimSource for InMemory {
    async fn get(&self, _: &str, name: &str) -> Result<String, GetClaimError> {
        Ok(claim_json(DRIVER, name, name))
    }
}

/// The floor: a server that returns the same answer and does nothing else.
struct Echo;

#[tonic::async_trait]
impl DraPlugin for Echo {
    async fn node_prepare_resources(
        &self,
        request: Request<proto::NodePrepareResourcesRequest>,
    ) -> Result<Response<proto::NodePrepareResourcesResponse>, Status> {
        let claims = request.into_inner().claims.into_iter();
        let answer = |claim: proto::Claim| {
            let device = proto::Device {
                request_names: vec!["r".to_owned()],
                pool_name: "node-1".to_owned(),
                device_name: "d-0".to_owned(),
                cdi_device_ids: vec![format!("{DRIVER}/claim={}", claim.uid)],
                share_id: None,
            };
            let answer = proto::NodePrepareResourceResponse {
                devices: vec![device],
                error: String::new(),
            };
            (claim.uid, answer)
        };
        let claims = claims.map(answer).collect();
        Ok(Response::new(proto::NodePrepareResourcesResponse {
            claims,
        }))
    }

    async fn node_unprepare_resources(
        &self,
        _: Request<proto::NodeUnprepareResourcesRequest>,
    ) -> Result<Response<proto::NodeUnprepareResourcesResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }
}
