//! kubelet's side of the health stream.

use std::sync::{Arc, Weak};

use super::channel::Channel;
use super::event::Event;
use super::health_reports::health_of;
use super::http2::rpc_error;
use super::process::Process;
use crate::proto::health as proto;
use crate::proto::health::dra_resource_health_client::DraResourceHealthClient;

/// Keeps a stream open on the plugin's connection, even if the service is not advertised.
/// Facts: the end of a stream discards the driver's reports. The next stream is opened after
/// 5 s, even if the service is not implemented.
pub(super) async fn listen(process: Weak<Process>, driver: String, channel: Arc<Channel>) {
    loop {
        let reason = follow(&process, &driver, &channel).await;
        let Some(process) = process.upgrade() else {
            return;
        };
        process.health().clear(&driver);
        process.node.log.push(Event::HealthLost {
            driver: driver.clone(),
            reason,
        });
        let pause = process.node.options.times.health_reopen;
        drop(process);
        tokio::time::sleep(pause).await;
    }
}

/// Follows one stream to its end, and returns the reason for the end.
async fn follow(process: &Weak<Process>, driver: &str, channel: &Channel) -> String {
    let transport = match channel.transport().await {
        Ok(transport) => transport,
        Err(reason) => return reason,
    };
    let origin = transport.origin.clone();
    let mut client = DraResourceHealthClient::with_origin(transport, origin);
    let request = proto::NodeWatchResourcesRequest {};
    let mut stream = match client.node_watch_resources(request).await {
        Ok(answer) => answer.into_inner(),
        Err(status) => return rpc_error(&status),
    };
    loop {
        let report = match stream.message().await {
            Ok(Some(report)) => report,
            Ok(None) => return "EOF".to_owned(),
            Err(status) => return rpc_error(&status),
        };
        let Some(process) = process.upgrade() else {
            return "kubelet ended".to_owned();
        };
        let default = process.node.options.times.health_freshness;
        process.health().add(driver, &report.devices, default);
        process.node.log.push(Event::HealthReported {
            driver: driver.to_owned(),
            devices: report.devices.iter().map(health_of).collect(),
        });
    }
}
