//! The pods of IMEX daemons, usually one for each node.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use compute_domain_api::driver_managed::TEMPLATE_ANNOTATION;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::jiff::Timestamp;

use crate::listing::Listing;

/// A daemon's pod whose containers run or may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonPod {
    /// Its name.
    pub name: Box<str>,
    /// Its UID.
    pub uid: Box<str>,
    /// The name of its node; `None`: it is not scheduled yet.
    pub node: Option<Box<str>>,
    /// Its address; empty until it has one.
    pub address: Box<str>,
    /// The address of its machine; empty until known.
    pub host: Box<str>,
    /// Whether the daemon is ready.
    pub ready: bool,
    /// Whether it is being deleted.
    pub ending: bool,
    /// Whether its container runs.
    pub(super) running: bool,
    /// The version of the object.
    pub(super) version: Box<str>,
    /// The UID of the `DaemonSet` that created it.
    pub(super) daemon_set: Option<Box<str>>,
    /// The template annotation; `None` without one.
    pub(super) template: Option<Box<str>>,
    created: Option<Timestamp>,
}

/// All daemon pods.
#[derive(Debug, Default)]
pub(super) struct Pods {
    by_uid: HashMap<Box<str>, DaemonPod>,
    of_node: HashMap<Box<str>, BTreeSet<Box<str>>>,
    /// By UID.
    listing: Listing,
}

// === impl DaemonPod ===

impl DaemonPod {
    /// Reads this pod; `None` if its containers have ended for ever.
    pub fn new(pod: &Pod) -> Option<Self> {
        let text = |text: &Option<String>| Box::<str>::from(text.as_deref().unwrap_or_default());
        let (metadata, status) = (&pod.metadata, pod.status.as_ref());
        let phase = status.and_then(|status| status.phase.as_deref());
        let node = pod.spec.as_ref()?.node_name.as_deref();
        if matches!(phase, Some("Failed" | "Succeeded")) {
            return None;
        }
        let ending = metadata.deletion_timestamp.is_some();
        Some(Self {
            name: text(&metadata.name),
            uid: text(&metadata.uid),
            node: node.filter(|node| !node.is_empty()).map(Box::from),
            address: status.map(|it| text(&it.pod_ip)).unwrap_or_default(),
            host: status.map(|it| text(&it.host_ip)).unwrap_or_default(),
            ready: !ending && status.is_some_and(is_ready),
            ending,
            running: status.is_some_and(runs),
            version: text(&metadata.resource_version),
            daemon_set: daemon_set(pod),
            template: template(metadata.annotations.as_ref()),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
        })
    }
}

/// The template annotation of a `DaemonSet` and its pods. It identifies the template from which a pod was created.
pub fn template(annotations: Option<&BTreeMap<String, String>>) -> Option<Box<str>> {
    Some(annotations?.get(TEMPLATE_ANNOTATION)?.as_str().into())
}

fn daemon_set(pod: &Pod) -> Option<Box<str>> {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let owner = owners.find(|it| it.kind == "DaemonSet" && it.controller == Some(true));
    owner.map(|owner| owner.uid.as_str().into())
}

fn runs(status: &PodStatus) -> bool {
    let mut containers = status.container_statuses.iter().flatten();
    containers.any(|it| {
        it.state
            .as_ref()
            .is_some_and(|state| state.running.is_some())
    })
}

fn is_ready(status: &PodStatus) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|it| it.type_ == "Ready" && it.status == "True")
}

// === impl Pods ===

impl Pods {
    pub(super) fn begin(&mut self) {
        self.listing.begin();
    }

    /// Returns the pods that no longer exist.
    pub(super) fn finish(&mut self) -> Vec<DaemonPod> {
        let gone = self.listing.finish(self.by_uid.keys());
        gone.iter().filter_map(|uid| self.remove(uid)).collect()
    }

    pub(super) fn get(&self, uid: &str) -> Option<&DaemonPod> {
        self.by_uid.get(uid)
    }

    /// Returns whether the pod has changed.
    pub(super) fn apply(&mut self, pod: DaemonPod) -> bool {
        self.listing.add(&pod.uid);
        if self.by_uid.get(&pod.uid) == Some(&pod) {
            return false;
        }
        if let Some(node) = &pod.node {
            let of_node = self.of_node.entry(node.clone()).or_default();
            of_node.insert(pod.uid.clone());
        }
        self.by_uid.insert(pod.uid.clone(), pod);
        true
    }

    /// Returns the pod, if it was known.
    pub(super) fn remove(&mut self, uid: &str) -> Option<DaemonPod> {
        let pod = self.by_uid.remove(uid)?;
        if let Some(node) = &pod.node
            && let Some(of_node) = self.of_node.get_mut(node)
        {
            of_node.remove(uid);
            if of_node.is_empty() {
                self.of_node.remove(node);
            }
        }
        Some(pod)
    }

    /// Whether a daemon may run on the node.
    pub(super) fn may_run_on(&self, node: &str) -> bool {
        self.of_node.contains_key(node)
    }

    /// The node's pod that is the member: the newest that has an address and is not being deleted.
    pub(super) fn member_on(&self, node: &str) -> Option<&DaemonPod> {
        let able = self
            .on(node)
            .filter(|it| !it.ending && !it.address.is_empty());
        able.max_by_key(|pod| (pod.created, pod.uid.clone()))
    }

    /// All pods.
    pub(super) fn all(&self) -> impl Iterator<Item = &DaemonPod> {
        self.by_uid.values()
    }

    /// All pods of the node.
    pub(super) fn on(&self, node: &str) -> impl Iterator<Item = &DaemonPod> {
        let uids = self.of_node.get(node).into_iter().flatten();
        uids.filter_map(|uid| self.by_uid.get(uid))
    }
}
