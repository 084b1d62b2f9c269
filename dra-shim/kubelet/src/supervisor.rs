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
///
/// A lost instance serves on until kubelet has registered its successor: kubelet
/// may still hold a connection to it, though the file is gone.
pub(crate) async fn supervise<D: Driver, S: ClaimSource>(
    common: Common<D, S>,
    mut instance: Instance,
    stop: CancellationToken,
) -> Result<(), SocketError> {
    let mut registration = common.verdict.subscribe();
    let mut lost_one: Option<Instance> = None;
    loop {
        let lost = tokio::select! {
            lost = instance.lost() => lost,
            () = stop.cancelled() => {
                tokio::join!(instance.close(), close(lost_one));
                return Ok(());
            }
            // The sender is in `common`, so this cannot fail.
            _ = registration.changed() => {
                if registration.borrow_and_update().is_registered() {
                    close(lost_one.take()).await;
                    sweep(&common.directories).await;
                }
                continue;
            }
        };
        tracing::warn!(%lost, "kubelet cannot reach the plugin; opening new sockets");
        common.verdict.set(Registration::Pending);
        let opened = tokio::select! {
            opened = reopen(&common) => opened?,
            () = stop.cancelled() => {
                tokio::join!(instance.close(), close(lost_one));
                return Ok(());
            }
        };
        close(lost_one.replace(std::mem::replace(&mut instance, opened))).await;
    }
}

async fn close(instance: Option<Instance>) {
    if let Some(instance) = instance {
        instance.close().await;
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
