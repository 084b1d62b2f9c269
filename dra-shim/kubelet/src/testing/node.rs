//! The node's state that outlives a kubelet process: kubelet's checkpoint on disk, and the
//! node's pods on the API server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::claims::Claims;
use super::event::Log;
use super::faults::{Faults, RegistrationStep};
use super::options::Options;
use super::pod::{Pod, PodRecord};

pub(super) struct Node {
    root: PathBuf,
    pub(super) options: Options,
    pub(super) api: Option<NodeApi>,
    pub(super) log: Log,
    claims: Mutex<Claims>,
    pods: Mutex<BTreeMap<String, PodRecord>>,
    faults: Mutex<Faults>,
}

/// The API server, and the name of this node there.
#[derive(Clone)]
pub(super) struct NodeApi {
    pub(super) client: kube::Client,
    pub(super) name: String,
}

/// Locks the mutex, even after a panic: no panic leaves the data half-changed.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Node ===

impl Node {
    pub(super) fn new(root: PathBuf, options: Options, api: Option<NodeApi>) -> Self {
        Self {
            root,
            claims: Mutex::new(Claims::new(options.repeated_prepare)),
            options,
            api,
            log: Log::new(),
            pods: Mutex::default(),
            faults: Mutex::default(),
        }
    }

    pub(super) fn registry(&self) -> PathBuf {
        self.root.join("plugins_registry")
    }

    pub(super) fn claims(&self) -> MutexGuard<'_, Claims> {
        locked(&self.claims)
    }

    pub(super) fn pod_uids(&self) -> Vec<String> {
        locked(&self.pods).keys().cloned().collect()
    }

    pub(super) fn pod(&self, uid: &str) -> Option<PodRecord> {
        locked(&self.pods).get(uid).cloned()
    }

    /// Adds the pod. Returns false if a pod with this UID exists, which remains.
    pub(super) fn add_pod(&self, pod: Pod) -> bool {
        let mut pods = locked(&self.pods);
        let new = !pods.contains_key(&pod.uid);
        pods.entry(pod.uid.clone())
            .or_insert_with(|| PodRecord::new(pod));
        new
    }

    pub(super) fn set_faults(&self, step: RegistrationStep, count: u32) {
        locked(&self.faults).set(step, count);
    }

    /// Fails if this answer must be lost.
    pub(super) fn lose(&self, step: RegistrationStep) -> Result<(), String> {
        locked(&self.faults).lose(step)
    }
}
