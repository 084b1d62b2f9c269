//! Keeps a plugin reachable: when kubelet cannot find its sockets any more, it gets
//! new ones.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::driver::Driver;
use crate::instance::{Common, Instance};
use crate::registration::Registration;
use crate::sockets::SocketError;
use crate::source::ClaimSource;
use crate::sweep::sweep;

/// How long a lost socket may resist being opened again.
const REOPEN: Duration = Duration::from_secs(30);

/// Keeps an instance open until `stop`, and the directories free of dead ones.
pub(crate) async fn supervise<D: Driver, S: ClaimSource>(
    common: Common<D, S>,
    mut instance: Instance,
    stop: CancellationToken,
) -> Result<(), SocketError> {
    let mut registration = common.registration.subscribe();
    loop {
        let lost = tokio::select! {
            lost = instance.lost() => lost,
            () = stop.cancelled() => {
                instance.close().await;
                return Ok(());
            }
            // The sender is in `common`, so this cannot fail.
            _ = registration.changed() => {
                if registration.borrow_and_update().is_registered() {
                    sweep(&common.directories).await;
                }
                continue;
            }
        };
        tracing::warn!(%lost, "kubelet cannot reach the plugin; opening new sockets");
        instance.close().await;
        common.registration.send_replace(Registration::Pending);
        instance = tokio::select! {
            opened = reopen(&common) => opened?,
            () = stop.cancelled() => return Ok(()),
        };
    }
}

async fn reopen<D: Driver, S: ClaimSource>(common: &Common<D, S>) -> Result<Instance, SocketError> {
    let until = Instant::now() + REOPEN;
    loop {
        match Instance::open(common) {
            Ok(instance) => return Ok(instance),
            Err(error) if Instant::now() >= until => return Err(error),
            Err(error) => tracing::warn!(%error, "cannot open the sockets yet"),
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
