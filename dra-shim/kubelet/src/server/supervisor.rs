//! Keeps a plugin reachable: opens new sockets when the old ones are lost.

use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::endpoints::{Endpoints, Services};
use super::other_instances::{CHECK_INTERVAL, OtherInstances};
use super::sockets::SocketError;
use super::stale_sockets;
use crate::claim_source::ClaimSource;
use crate::driver::Driver;
use crate::registration::Registration;

/// Time for which reopening lost sockets may fail before the plugin fails.
const REOPEN_TIMEOUT: Duration = Duration::from_secs(30);

/// Keeps endpoints open until `stop`. Removes the sockets of dead instances after each
/// registration, and every [`CHECK_INTERVAL`] while registered. Reports other live instances that
/// should have ended.
///
/// Lost endpoints continue to serve until kubelet has registered their successor: kubelet may
/// still have a connection to them, although the file is deleted.
// req: KUBELET-8
pub(crate) async fn supervise<D: Driver, S: ClaimSource>(
    services: Services<D, S>,
    mut endpoints: Endpoints,
    stop: CancellationToken,
) -> Result<(), SocketError> {
    let mut registration = services.registration.subscribe();
    let mut predecessor: Option<Endpoints> = None;
    let mut others = OtherInstances::new(services.other_instances.clone());
    let mut check_others = tokio::time::interval(CHECK_INTERVAL);
    check_others.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let reason = tokio::select! {
            reason = endpoints.lost() => reason,
            () = stop.cancelled() => {
                tokio::join!(endpoints.close(), close(predecessor));
                return Ok(());
            }
            // The sender is in `services`, so this cannot fail.
            _ = registration.changed() => {
                if registration.borrow_and_update().is_registered() {
                    close(predecessor.take()).await;
                    stale_sockets::remove(&services.directories).await;
                }
                continue;
            }
            _ = check_others.tick() => {
                let own = std::iter::once(&endpoints).chain(&predecessor);
                let own: Vec<_> = own.flat_map(Endpoints::paths).collect();
                others.check_sockets(&services.directories, &own).await;
                // A killed process may have accepted connections until the previous check.
                if registration.borrow().is_registered() {
                    stale_sockets::remove(&services.directories).await;
                }
                continue;
            }
        };
        tracing::warn!(%reason, "kubelet cannot reach the plugin; opening new sockets");
        services.registration.set(Registration::Pending);
        let opened = tokio::select! {
            opened = reopen(&services) => opened?,
            () = stop.cancelled() => {
                tokio::join!(endpoints.close(), close(predecessor));
                return Ok(());
            }
        };
        close(predecessor.replace(std::mem::replace(&mut endpoints, opened))).await;
    }
}

async fn close(endpoints: Option<Endpoints>) {
    if let Some(endpoints) = endpoints {
        endpoints.close().await;
    }
}

// req: KUBELET-9
async fn reopen<D: Driver, S: ClaimSource>(
    services: &Services<D, S>,
) -> Result<Endpoints, SocketError> {
    let give_up = Instant::now() + REOPEN_TIMEOUT;
    loop {
        match Endpoints::open(services) {
            Ok(endpoints) => return Ok(endpoints),
            Err(error) if Instant::now() >= give_up => return Err(error),
            Err(error) => tracing::warn!(%error, "cannot open the sockets; retrying"),
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
