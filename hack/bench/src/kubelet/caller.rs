//! kubelet's side of the calls, on one connection.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use futures_util::future::try_join_all;
use tonic::transport::{Channel, Endpoint};

use super::proto;
use super::proto::dra_plugin_client::DraPluginClient;

/// kubelet's timeout of a call.
const DEADLINE: Duration = Duration::from_secs(45);
/// The number of concurrent calls, each for a claim of its own: a node full of pods.
pub(super) const AT_ONCE: usize = 200;

pub(super) struct Caller(DraPluginClient<Channel>);

impl Caller {
    pub(super) async fn connect(socket: &Path) -> anyhow::Result<Self> {
        let endpoint = Endpoint::from_shared(format!("unix:{}", socket.display()))?;
        let channel = endpoint.connect().await;
        let channel = channel.with_context(|| format!("cannot connect to {}", socket.display()))?;
        Ok(Self(DraPluginClient::new(channel)))
    }

    /// Prepares the claim of this number, and checks that it was prepared.
    pub(super) async fn prepare(&self, number: usize) -> anyhow::Result<()> {
        let uid = format!("11111111-2222-3333-4444-{number:012}");
        let claim = proto::Claim {
            namespace: "ns".to_owned(),
            name: uid.clone(),
            uid: uid.clone(),
        };
        let claims = vec![claim];
        let mut request = tonic::Request::new(proto::NodePrepareResourcesRequest { claims });
        request.set_timeout(DEADLINE);
        let answer = self.0.clone().node_prepare_resources(request).await?;
        let answer = answer.into_inner().claims.remove(&uid);
        let answer = answer.context("the claim got no answer")?;
        ensure!(answer.error.is_empty(), "not prepared: {}", answer.error);
        ensure!(answer.devices.len() == 1, "prepared without its device");
        Ok(())
    }

    /// Prepares [`AT_ONCE`] claims from `first` on concurrently, and returns the time of each.
    pub(super) async fn at_once(&self, first: usize) -> anyhow::Result<Vec<Duration>> {
        let calls = (first..first + AT_ONCE).map(|number| async move {
            let began = Instant::now();
            self.prepare(number).await?;
            anyhow::Ok(began.elapsed())
        });
        try_join_all(calls).await
    }
}
