//! A client that makes kubelet's calls on one connection.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use tonic::transport::{Channel, Endpoint};

use crate::dra_proto as proto;
use crate::dra_proto::dra_plugin_client::DraPluginClient;

/// kubelet's timeout for a call.
const DEADLINE: Duration = Duration::from_secs(45);

#[derive(Clone)]
pub(crate) struct Caller(DraPluginClient<Channel>);

impl Caller {
    pub(crate) async fn connect(socket: &Path) -> anyhow::Result<Self> {
        let endpoint = Endpoint::from_shared(format!("unix:{}", socket.display()))?;
        let channel = endpoint.connect().await;
        let channel = channel.with_context(|| format!("cannot connect to {}", socket.display()))?;
        Ok(Self(DraPluginClient::new(channel)))
    }

    /// Prepares the claims in one call; checks that each got one device.
    pub(crate) async fn prepare(&self, claims: &[proto::Claim]) -> anyhow::Result<()> {
        let request = proto::NodePrepareResourcesRequest {
            claims: claims.to_vec(),
        };
        let answer = self.0.clone().node_prepare_resources(timed(request)).await;
        let mut answers = answer?.into_inner().claims;
        for claim in claims {
            let answer = take(&mut answers, claim)?;
            ensure!(answer.error.is_empty(), "not prepared: {}", answer.error);
            ensure!(answer.devices.len() == 1, "prepared without its device");
        }
        Ok(())
    }

    /// Unprepares the claims in one call.
    pub(crate) async fn unprepare(&self, claims: &[proto::Claim]) -> anyhow::Result<()> {
        let request = proto::NodeUnprepareResourcesRequest {
            claims: claims.to_vec(),
        };
        let answer = self
            .0
            .clone()
            .node_unprepare_resources(timed(request))
            .await;
        let mut answers = answer?.into_inner().claims;
        for claim in claims {
            let answer = take(&mut answers, claim)?;
            ensure!(answer.error.is_empty(), "not unprepared: {}", answer.error);
        }
        Ok(())
    }
}

fn timed<T>(message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(DEADLINE);
    request
}

fn take<A>(answers: &mut HashMap<String, A>, claim: &proto::Claim) -> anyhow::Result<A> {
    let answer = answers.remove(&claim.uid);
    answer.with_context(|| format!("the answer lacks claim {}", claim.name))
}

/// The service socket of the plugin with this data directory.
pub(crate) fn service_socket(data: &Path) -> Option<PathBuf> {
    let is_service = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("dra") && name.ends_with(".sock")
    };
    let entries = std::fs::read_dir(data).ok()?;
    entries.flatten().map(|entry| entry.path()).find(is_service)
}
