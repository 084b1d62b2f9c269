//! What outlives a kubelet process: its checkpoint on disk, and the pods that the
//! API server has for the node.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::RegistrationStep;
use super::claims::Claims;
use super::event::Log;
use super::options::Options;
use super::pods::{Pod, PodRecord};
use super::slices::NodeApi;

pub(super) struct World {
    root: PathBuf,
    pub(super) options: Options,
    pub(super) api: Option<NodeApi>,
    pub(super) log: Log,
    claims: Mutex<Claims>,
    pods: Mutex<BTreeMap<String, PodRecord>>,
    /// How many answers are still to be lost.
    faults: Mutex<[(RegistrationStep, u32); 2]>,
}

/// A panic elsewhere does not make the data worse.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    pub(super) fn new(root: PathBuf, options: Options, api: Option<NodeApi>) -> Self {
        let none = [RegistrationStep::GetInfo, RegistrationStep::Notify].map(|step| (step, 0));
        Self {
            root,
            claims: Mutex::new(Claims::new(options.repeated)),
            options,
            api,
            log: Log::new(),
            pods: Mutex::default(),
            faults: Mutex::new(none),
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

    /// False: there is one of that UID already, which stays.
    pub(super) fn add_pod(&self, pod: Pod) -> bool {
        let mut pods = locked(&self.pods);
        let new = !pods.contains_key(&pod.uid);
        pods.entry(pod.uid.clone())
            .or_insert_with(|| PodRecord::new(pod));
        new
    }

    pub(super) fn set_faults(&self, step: RegistrationStep, count: u32) {
        for fault in locked(&self.faults).iter_mut() {
            if fault.0 == step {
                fault.1 = count;
            }
        }
    }

    /// Fails if this answer is one to be lost.
    pub(super) fn lose(&self, step: RegistrationStep) -> Result<(), String> {
        let mut faults = locked(&self.faults);
        let fault = faults
            .iter_mut()
            .find(|(it, left)| *it == step && *left > 0);
        fault.map_or(Ok(()), |(_, left)| {
            *left -= 1;
            Err(format!("{step:?} failed: the test lost the answer"))
        })
    }
}
