//! Two instances of a driver on one data directory: the election of the publisher, and the
//! devices after the end of an instance.

use std::collections::BTreeSet;
use std::path::PathBuf;

use dra_kubelet::{DesiredPool, Plugin, Publication};
use k8s_openapi::api::resource::v1::Device;
use tempfile::TempDir;
use tokio::sync::watch;

use crate::support::api::ApiServer;
use crate::support::{Claims, DRIVER, Script, files, notify, soon, until};

/// One instance, with its registration socket.
#[cfg(test)]
struct Instance {
    plugin: Plugin,
    socket: PathBuf,
    _desired: watch::Sender<DesiredPool>,
}

#[cfg(test)]
fn sockets(root: &TempDir) -> BTreeSet<PathBuf> {
    let registry = root.path().join("plugins_registry");
    if registry.exists() {
        files(&registry).into_iter().collect()
    } else {
        BTreeSet::new()
    }
}

#[cfg(test)]
fn start(server: &ApiServer, root: &TempDir, device: &str) -> Instance {
    let device = Device {
        name: device.to_owned(),
        ..Default::default()
    };
    let (sender, desired) = watch::channel(DesiredPool::Devices(vec![device]));
    let before = sockets(root);
    let plugin = Plugin::builder(DRIVER, "n1")
        .kubelet_root(root.path())
        .publish(server.client(), desired)
        .start(Script::instant(), Claims::default())
        .unwrap();
    let socket = sockets(root).difference(&before).next().unwrap().clone();
    Instance {
        plugin,
        socket,
        _desired: sender,
    }
}

/// Starts an instance, registers it, and waits until it publishes.
#[cfg(test)]
async fn serving(server: &ApiServer, root: &TempDir, device: &str) -> Instance {
    let instance = start(server, root, device);
    notify(&instance.socket).await;
    instance.publishes().await;
    instance
}

#[cfg(test)]
impl Instance {
    async fn publishes(&self) {
        self.wait_for_state(|p| matches!(p, Publication::Published { .. }))
            .await;
    }

    async fn is_on_standby(&self) {
        self.wait_for_state(|p| *p == Publication::Standby).await;
    }

    async fn wait_for_state(&self, wanted: impl FnMut(&Publication) -> bool) {
        let mut state = self.plugin.publication().unwrap();
        soon("the publication", state.wait_for(wanted))
            .await
            .unwrap();
    }
}

#[cfg(test)]
fn published(server: &ApiServer) -> String {
    let slices = server.slices();
    assert_eq!(slices.len(), 1, "{slices:?}");
    slices[0]["spec"]["devices"][0]["name"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[cfg(test)]
fn mk_server() -> ApiServer {
    let server = ApiServer::default();
    server.put_node("n1", "node-uid");
    server
}

#[tokio::test]
async fn a_new_versions_devices_appear_once_kubelet_can_call_it() {
    let server = mk_server();
    let root = tempfile::tempdir().unwrap();
    let old = serving(&server, &root, "old").await;

    let new = start(&server, &root, "new");
    new.is_on_standby().await;
    assert_eq!(published(&server), "old");
    notify(&new.socket).await;
    new.publishes().await;
    old.is_on_standby().await;
    assert_eq!(published(&server), "new");
    // One creation by the old instance, one change by the new one, and no further writes.
    assert_eq!(server.writes().len(), 2, "{:?}", server.writes());

    // The end of the update: the old instance ends, without further writes.
    old.plugin.shutdown().await;
    assert_eq!(published(&server), "new");
    assert_eq!(server.writes().len(), 2, "{:?}", server.writes());
}

#[tokio::test]
async fn a_failed_update_restores_the_old_devices() {
    let server = mk_server();
    let root = tempfile::tempdir().unwrap();
    let old = serving(&server, &root, "old").await;
    let new = serving(&server, &root, "new").await;
    old.is_on_standby().await;

    drop(new);
    until("the old devices are back", || published(&server) == "old").await;
    old.publishes().await;
    assert_eq!(server.writes().len(), 3, "{:?}", server.writes());
}

#[tokio::test]
async fn deleted_slices_are_restored_by_one_of_two_instances() {
    let server = mk_server();
    let root = tempfile::tempdir().unwrap();
    let old = serving(&server, &root, "same").await;
    let _new = serving(&server, &root, "same").await;
    assert_eq!(server.writes().len(), 1, "{:?}", server.writes());

    server.delete_slice("00000-test.example.com-n1");
    until("the slice is back", || server.slices().len() == 1).await;
    old.is_on_standby().await;
    assert_eq!(server.writes().len(), 2, "{:?}", server.writes());
}
