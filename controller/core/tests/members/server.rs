//! The objects of the API server.

use std::collections::BTreeMap;

use compute_domain_api::clique::ComputeDomainClique;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::ResourceSlice;
use serde_json::json;

/// A slice of a node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slice {
    pub(crate) node: String,
    pub(crate) uid: String,
    /// `None`: the attribute is missing.
    pub(crate) said: Option<ReportedClique>,
    /// The daemon's pod for which the slice reports that no claim is prepared.
    pub(crate) drained: Option<String>,
    /// The place with which its `nvidia-imex` runs in that clique.
    pub(crate) place: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReportedClique {
    NoClique,
    Clique(String),
}

/// A pod of a daemon.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DaemonPod {
    pub(crate) uid: String,
    pub(crate) node: String,
    pub(crate) address: String,
    /// The machine that it runs on.
    pub(crate) host: String,
    pub(crate) ready: bool,
    pub(crate) ending: bool,
    /// The template that it was created from.
    pub(crate) template: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    Slice(Slice),
    SliceGone(Slice),
    Pod(DaemonPod),
    PodGone(String),
    Template(usize),
    Clique(Box<ComputeDomainClique>),
    CliqueGone(String, String),
}

#[derive(Default)]
pub(crate) struct Server {
    pub(crate) slices: BTreeMap<String, Slice>,
    pub(crate) pods: BTreeMap<String, DaemonPod>,
    pub(crate) cliques: BTreeMap<String, ComputeDomainClique>,
    /// The events that each watch has yet to deliver, in order.
    pub(crate) watches: [Vec<Event>; 4],
    revision: u64,
    pub(crate) writes: usize,
    /// The current template of daemons.
    pub(crate) template: usize,
    /// The number of claims that are allocated to each node, and of those that are prepared there.
    pub(crate) allocated: BTreeMap<String, usize>,
    pub(crate) prepared: BTreeMap<String, usize>,
    /// The pods that the controller has deleted but that still run.
    pub(crate) deleted: Vec<String>,
}

impl Server {
    /// The template of the daemons changes.
    pub(crate) fn update(&mut self) {
        self.template += 1;
        self.watches[3].push(Event::Template(self.template));
    }

    pub(crate) fn set_slice(&mut self, slice: Slice) {
        if self.slices.get(&slice.node) != Some(&slice) {
            self.slices.insert(slice.node.clone(), slice.clone());
            self.watches[0].push(Event::Slice(slice));
        }
    }

    pub(crate) fn delete_slice(&mut self, node: &str) {
        if let Some(slice) = self.slices.remove(node) {
            self.watches[0].push(Event::SliceGone(slice));
        }
    }

    pub(crate) fn set_pod(&mut self, pod: DaemonPod) {
        if self.pods.get(&pod.uid) != Some(&pod) {
            self.pods.insert(pod.uid.clone(), pod.clone());
            self.watches[1].push(Event::Pod(pod));
        }
    }

    /// The controller replaces this daemon.
    pub(crate) fn replace_pod(&mut self, uid: &str) -> bool {
        let Some(pod) = self.pods.get(uid).cloned() else {
            return true;
        };
        self.set_pod(DaemonPod {
            ending: true,
            ready: false,
            ..pod
        });
        self.deleted.push(uid.to_owned());
        true
    }

    pub(crate) fn delete_pod(&mut self, uid: &str) {
        if self.pods.remove(uid).is_some() {
            self.watches[1].push(Event::PodGone(uid.to_owned()));
        }
    }

    /// Creates the object, or replaces it if it still has this version. Returns the stored object.
    pub(crate) fn write(
        &mut self,
        object: &ComputeDomainClique,
        create: bool,
    ) -> Option<ComputeDomainClique> {
        let name = object.metadata.name.clone().unwrap();
        let stored = self.cliques.get(&name);
        let fits = match stored {
            None => create,
            Some(stored) => {
                !create && stored.metadata.resource_version == object.metadata.resource_version
            }
        };
        if !fits {
            return None;
        }
        self.revision += 1;
        self.writes += 1;
        let mut object = object.clone();
        object.metadata.resource_version = Some(self.revision.to_string());
        if create {
            object.metadata.uid = Some(format!("object-{}", self.revision));
        }
        self.cliques.insert(name, object.clone());
        self.watches[2].push(Event::Clique(Box::new(object.clone())));
        Some(object)
    }

    /// A user rotates the object's members, or deletes it.
    pub(crate) fn tamper(&mut self, name: &str, rotation: Option<usize>) {
        let Some(rotation) = rotation else {
            self.cliques.remove(name);
            return;
        };
        let mut object = self.cliques[name].clone();
        let mut indices: Vec<_> = object.spec.daemons.iter().map(|it| it.index).collect();
        let rotation = rotation % indices.len();
        indices.rotate_left(rotation);
        for (daemon, index) in object.spec.daemons.iter_mut().zip(indices) {
            daemon.index = index;
        }
        self.write(&object, false).unwrap();
    }

    pub(crate) fn delete_clique(&mut self, name: &str, version: &str) -> bool {
        let fits =
            |it: &&ComputeDomainClique| it.metadata.resource_version.as_deref() == Some(version);
        if !self.cliques.get(name).as_ref().is_some_and(fits) {
            return false;
        }
        self.writes += 1;
        let object = self.cliques.remove(name).unwrap();
        let uid = object.metadata.uid.unwrap();
        self.watches[2].push(Event::CliqueGone(name.to_owned(), uid));
        true
    }
}

impl Slice {
    pub(crate) fn object(&self) -> ResourceSlice {
        let mut device = json!({ "name": "channel-0", "attributes": { "id": { "int": 0 } } });
        match &self.said {
            None => {}
            Some(ReportedClique::NoClique) => {
                device["taints"] = json!([{ "key": "compute-domain.nvidia.com/no-clique", "effect": "NoSchedule" }]);
            }
            Some(ReportedClique::Clique(clique)) => {
                device["attributes"]["clique"] = json!({ "string": clique });
            }
        }
        if let Some(pod) = &self.drained {
            device["attributes"]["drained"] = json!({ "string": pod });
        }
        if let Some(place) = &self.place {
            device["attributes"]["place"] = json!({ "string": place });
        }
        serde_json::from_value(json!({
            "metadata": { "name": format!("slice-{}-{}", self.node, self.uid), "ownerReferences": [
                { "apiVersion": "v1", "kind": "Node", "name": self.node, "uid": self.uid },
            ] },
            "spec": {
                "driver": "compute-domain.nvidia.com", "nodeName": self.node, "devices": [device],
                "pool": { "name": self.node, "generation": 1, "resourceSliceCount": 1 },
            },
        }))
        .unwrap()
    }
}

impl DaemonPod {
    pub(crate) fn object(&self) -> Pod {
        let ready = if self.ready { "True" } else { "False" };
        let mut pod = json!({
            "metadata": {
                "name": self.uid, "uid": self.uid,
                "annotations": { "imex-dra/template": self.template.to_string() },
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "set", "uid": "set", "controller": true,
                }],
            },
            "spec": { "nodeName": self.node, "containers": [] },
            "status": {
                "phase": "Running", "conditions": [{ "type": "Ready", "status": ready }],
                "containerStatuses": [{
                    "name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": { "running": {} },
                }],
            },
        });
        if !self.address.is_empty() {
            pod["status"]["podIP"] = json!(self.address);
            pod["status"]["hostIP"] = json!(self.host);
        }
        if self.ending {
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        }
        serde_json::from_value(pod).unwrap()
    }
}
