//! The start of a kubelet process: its state and its loops.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::sync::Arc;

use super::event::Event;
use super::node::Node;
use super::process::Process;
use super::watcher::Watcher;
use super::{plugin_manager, pod_worker, slice_cleanup};

/// Starts a process on the node: creates the registry directory if it is missing (0755, like
/// kubelet), starts the loops, and resumes the existing pods.
pub(super) fn start(node: &Arc<Node>) -> io::Result<Arc<Process>> {
    let registry = node.registry();
    let mut directories = fs::DirBuilder::new();
    directories.recursive(true).mode(0o755).create(&registry)?;
    let (watcher, found) = Watcher::new(&registry)?;
    let process = Arc::new(Process::new(Arc::clone(node)));
    node.claims().forget_prepared();
    node.log.push(Event::Started);
    process.spawn(plugin_manager::run(Arc::clone(&process), watcher, found));
    process.spawn(pod_worker::clean_up(Arc::clone(&process)));
    if let Some(api) = node.api.clone() {
        process.spawn(slice_cleanup::run(Arc::clone(&process), api));
    }
    for pod in node.pod_uids() {
        process.spawn(pod_worker::run(Arc::clone(&process), pod));
    }
    Ok(process)
}
