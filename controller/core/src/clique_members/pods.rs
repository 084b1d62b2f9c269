//! The pods of IMEX daemons: one for each node, as a rule.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use compute_domain_api::resident::TEMPLATE_ANNOTATION;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use k8s_openapi::jiff::Timestamp;

/// A daemon's pod whose containers run, or may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonPod {
    /// Its name.
    pub name: Box<str>,
    /// Its UID.
    pub uid: Box<str>,
    /// The name of its node; empty: no node has room for it yet.
    pub node: Box<str>,
    /// Its address; empty: none yet.
    pub address: Box<str>,
    /// The address of its machine; empty: none yet.
    pub host: Box<str>,
    /// Whether the daemon is ready.
    pub ready: bool,
    /// Whether it is being deleted.
    pub ending: bool,
    /// Whether its container runs.
    pub(super) running: bool,
    /// The version of the object.
    pub(super) version: Box<str>,
    /// The UID of the `DaemonSet` that has made it; empty: none has.
    pub(super) daemon_set: Box<str>,
    /// What it was made from; empty: it does not say.
    pub(super) template: Box<str>,
    created: Option<Timestamp>,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Pods {
    by_uid: HashMap<Box<str>, DaemonPod>,
    of_node: HashMap<Box<str>, BTreeSet<Box<str>>>,
    /// The UIDs that the list which is going on has told of.
    listing: Option<HashSet<Box<str>>>,
}

// === impl DaemonPod ===

impl DaemonPod {
    /// What this pod says; `None` if none of its containers runs and none ever will.
    pub fn new(pod: &Pod) -> Option<Self> {
        let text = |text: &Option<String>| Box::<str>::from(text.as_deref().unwrap_or_default());
        let (metadata, status) = (&pod.metadata, pod.status.as_ref());
        let phase = status.and_then(|status| status.phase.as_deref());
        let node = pod.spec.as_ref()?.node_name.as_deref().unwrap_or_default();
        if matches!(phase, Some("Failed" | "Succeeded")) {
            return None;
        }
        let ending = metadata.deletion_timestamp.is_some();
        Some(Self {
            name: text(&metadata.name),
            uid: text(&metadata.uid),
            node: node.into(),
            address: status.map(|it| text(&it.pod_ip)).unwrap_or_default(),
            host: status.map(|it| text(&it.host_ip)).unwrap_or_default(),
            ready: !ending && status.is_some_and(is_ready),
            ending,
            running: status.is_some_and(runs),
            version: text(&metadata.resource_version),
            daemon_set: daemon_set(pod),
            template: template(metadata.annotations.as_ref()).unwrap_or_default(),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
        })
    }
}

/// What the annotation of a `DaemonSet`, and of the pods that it has made since, says that they are made from.
pub fn template(annotations: Option<&BTreeMap<String, String>>) -> Option<Box<str>> {
    Some(annotations?.get(TEMPLATE_ANNOTATION)?.as_str().into())
}

fn daemon_set(pod: &Pod) -> Box<str> {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let owner = owners.find(|it| it.kind == "DaemonSet" && it.controller == Some(true));
    owner
        .map(|owner| owner.uid.as_str().into())
        .unwrap_or_default()
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
        self.listing = Some(HashSet::new());
    }

    /// Returns the nodes of the pods that are gone.
    pub(super) fn finish(&mut self) -> Vec<Box<str>> {
        let Some(listed) = self.listing.take() else {
            return Vec::new();
        };
        let uids = self.by_uid.keys().filter(|uid| !listed.contains(*uid));
        let gone: Vec<_> = uids.cloned().collect();
        gone.iter().filter_map(|uid| self.remove(uid)).collect()
    }

    pub(super) fn get(&self, uid: &str) -> Option<&DaemonPod> {
        self.by_uid.get(uid)
    }

    /// Returns whether it says anything new.
    pub(super) fn apply(&mut self, pod: DaemonPod) -> bool {
        if let Some(listed) = &mut self.listing {
            listed.insert(pod.uid.clone());
        }
        if self.by_uid.get(&pod.uid) == Some(&pod) {
            return false;
        }
        let of_node = self.of_node.entry(pod.node.clone()).or_default();
        of_node.insert(pod.uid.clone());
        self.by_uid.insert(pod.uid.clone(), pod);
        true
    }

    /// Returns its node, if it was known.
    pub(super) fn remove(&mut self, uid: &str) -> Option<Box<str>> {
        let pod = self.by_uid.remove(uid)?;
        if let Some(of_node) = self.of_node.get_mut(&pod.node) {
            of_node.remove(uid);
            if of_node.is_empty() {
                self.of_node.remove(&pod.node);
            }
        }
        Some(pod.node)
    }

    /// Whether a daemon may run on the node.
    pub(super) fn may_run_on(&self, node: &str) -> bool {
        self.of_node.contains_key(node)
    }

    /// The pod that is the node's member: it has an address and is not being deleted. Of several, the
    /// newest one.
    pub(super) fn member_on(&self, node: &str) -> Option<&DaemonPod> {
        let able = self
            .on(node)
            .filter(|it| !it.ending && !it.address.is_empty());
        able.max_by_key(|pod| (pod.created, pod.uid.clone()))
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &DaemonPod> {
        self.by_uid.values()
    }

    /// All pods of the node.
    pub(super) fn on(&self, node: &str) -> impl Iterator<Item = &DaemonPod> {
        let uids = self.of_node.get(node).into_iter().flatten();
        uids.filter_map(|uid| self.by_uid.get(uid))
    }
}
