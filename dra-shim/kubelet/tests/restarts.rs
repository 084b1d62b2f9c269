//! The plugin restores deleted files, and instances that share the directories do not affect
//! each other.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use dra_kubelet::{Plugin, Registration};

use crate::support::{
    Claims, DRIVER, GIVE_UP, Running, Script, files, notify, prepare_request, soon, start, until,
};

#[cfg(test)]
fn sockets(running: &Running) -> Vec<PathBuf> {
    let directories = [running.registry(), running.data()];
    let there = directories.iter().filter(|directory| directory.exists());
    there.flat_map(|directory| files(directory)).collect()
}

/// Waits until kubelet has registered two new sockets, the old ones are removed, and calls are
/// answered.
#[cfg(test)]
async fn reopens_sockets(running: &Running, old: &[PathBuf]) {
    let new = || {
        let sockets = sockets(running).into_iter();
        sockets
            .filter(|path| !old.contains(path))
            .collect::<Vec<_>>()
    };
    until("two new sockets", || new().len() == 2).await;
    assert_eq!(
        *running.plugin.registration().borrow(),
        Registration::Pending
    );
    notify(&new()[0]).await;
    until("the old ones' end", || sockets(running) == new()).await;
    let request = prepare_request(&["a"], GIVE_UP);
    let mut client = running.dra().await;
    let answer = client.node_prepare_resources(request).await.unwrap();
    assert_eq!(answer.into_inner().claims["uid-a"].error, "");
}

#[cfg(test)]
async fn registered() -> (Running, Vec<PathBuf>) {
    let running = start(Script::instant(), Claims::allocated(&["a"]));
    notify(&running.registration_socket()).await;
    let old = sockets(&running);
    assert_eq!(old.len(), 2);
    (running, old)
}

// req: KUBELET-9
#[tokio::test]
async fn a_service_socket_deleted_by_hand_is_replaced_and_no_call_fails_meanwhile() {
    let (running, old) = registered().await;
    let mut kubelet = running.dra().await;
    fs::remove_file(files(&running.data()).remove(0)).unwrap();
    until("new sockets", || sockets(&running).len() == 3).await;
    // kubelet's connection is older than the loss, and works until kubelet has a new one.
    let request = prepare_request(&["a"], GIVE_UP);
    let answer = kubelet.node_prepare_resources(request).await.unwrap();
    assert_eq!(answer.into_inner().claims["uid-a"].error, "");
    reopens_sockets(&running, &old).await;
}

#[tokio::test]
async fn an_emptied_registry_is_filled_again() {
    let (running, old) = registered().await;
    fs::remove_file(running.registration_socket()).unwrap();
    reopens_sockets(&running, &old).await;
}

// req: KUBELET-9
#[tokio::test]
async fn directories_that_are_deleted_and_recreated_are_used_again() {
    let (running, old) = registered().await;
    for directory in [running.registry(), running.data()] {
        fs::remove_dir_all(&directory).unwrap();
        fs::create_dir(&directory).unwrap();
    }
    reopens_sockets(&running, &old).await;
}

// req: KUBELET-9
#[tokio::test]
async fn a_socket_replaced_by_another_file_is_lost_and_the_file_is_kept() {
    let (running, old) = registered().await;
    let socket = running.registration_socket();
    fs::remove_file(&socket).unwrap();
    fs::write(&socket, "not ours").unwrap();
    // The file, the old service socket, which still serves, and the two new sockets.
    until("new sockets beside it", || sockets(&running).len() == 4).await;
    assert_eq!(fs::read_to_string(&socket).unwrap(), "not ours");
    fs::remove_file(&socket).unwrap();
    reopens_sockets(&running, &old).await;
}

// req: KUBELET-12
#[tokio::test]
async fn both_instances_of_a_rolling_update_serve_until_the_older_one_ends() {
    let older = start(Script::instant(), Claims::allocated(&["a"]));
    notify(&older.registration_socket()).await;
    let old = sockets(&older);
    let newer = Plugin::builder(DRIVER, "n1")
        .kubelet_root(older.root.path())
        .start(Script::instant(), Claims::allocated(&["a"]))
        .unwrap();
    let registration = files(&older.registry())
        .into_iter()
        .find(|path| !old.contains(path))
        .unwrap();
    // A socket that the clean-up after the registration removes, to observe its end.
    let dead = older.data().join("dra-00c0ffee@plugin.sock");
    drop(UnixListener::bind(&dead).unwrap());
    notify(&registration).await;
    until("the dead socket is removed", || !dead.exists()).await;
    let both = sockets(&older);
    assert_eq!(both.len(), 4);

    let Running { plugin, root } = older;
    soon("the older one's end", plugin.shutdown()).await;
    let running = Running {
        plugin: newer,
        root,
    };
    let left: Vec<_> = both
        .into_iter()
        .filter(|path| !old.contains(path))
        .collect();
    assert_eq!(sockets(&running), left);
    let request = prepare_request(&["a"], GIVE_UP);
    let mut client = running.dra().await;
    let answer = client.node_prepare_resources(request).await.unwrap();
    assert_eq!(answer.into_inner().claims["uid-a"].error, "");
}
