//! A registration service of another implementation.

use std::path::Path;

use tokio::net::UnixListener;
use tokio::sync::watch;
use tonic::{Request, Response, Status};
use tower::util::MapRequestLayer;

use super::DRIVER;
use super::node::Node;
use super::proto::registration::registration_server::{Registration, RegistrationServer};
use super::proto::registration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};

/// The received requests of kubelet.
pub struct Received {
    pub verdicts: watch::Receiver<Vec<RegistrationStatus>>,
    /// `:authority` of every request.
    pub authorities: watch::Receiver<Vec<String>>,
}

/// A service whose answers the test configures.
struct Registrar {
    info: PluginInfo,
    verdicts: watch::Sender<Vec<RegistrationStatus>>,
}

#[tonic::async_trait]
impl Registration for Registrar {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(self.info.clone()))
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let status = request.into_inner();
        self.verdicts.send_modify(|verdicts| verdicts.push(status));
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}

/// Serves the registration in the registry directory as `file`.
pub fn register(node: &Node, file: &str, endpoint: &Path, versions: &[&str]) -> Received {
    let (verdicts, verdicts_seen) = watch::channel(Vec::new());
    let (authorities, authorities_seen) = watch::channel(Vec::new());
    let info = PluginInfo {
        r#type: "DRAPlugin".into(),
        name: DRIVER.into(),
        endpoint: endpoint.to_str().unwrap().into(),
        supported_versions: versions.iter().map(|&it| it.to_owned()).collect(),
    };
    let listener = UnixListener::bind(node.kubelet.registry().join(file)).unwrap();
    let incoming = futures_util::stream::unfold(listener, |listener| async move {
        let accepted = listener.accept().await.map(|(stream, _)| stream);
        Some((accepted, listener))
    });
    let service = RegistrationServer::new(Registrar { info, verdicts });
    let listening = MapRequestLayer::new(move |request: http::Request<tonic::body::Body>| {
        let authority = request.uri().authority().map(ToString::to_string);
        authorities.send_modify(|seen| seen.extend(authority));
        request
    });
    let server = tonic::transport::Server::builder()
        .layer(listening)
        .add_service(service);
    tokio::spawn(server.serve_with_incoming(incoming));
    Received {
        verdicts: verdicts_seen,
        authorities: authorities_seen,
    }
}
