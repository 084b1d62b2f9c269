//! The controller: the code under test, with late watches and lost requests.

use std::sync::LazyLock;
use std::time::Instant;

use compute_domain_core::{Clique, CliqueMembers, Clock, MemberStep, NodeSlice, Replacement};
use fastrand::Rng;
use k8s_openapi::jiff::Timestamp;

use crate::server::{Event, Server};

pub(crate) const MAX_NODES: u32 = 4;

/// The outcome of a request.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Luck {
    Good,
    RequestLost,
    AnswerLost,
}

pub(crate) struct Controller {
    pub(crate) members: CliqueMembers,
}

impl Controller {
    /// A new controller: its watches list the current objects.
    pub(crate) fn start(server: &mut Server, now: Instant) -> Self {
        server.watches = Default::default();
        let mut members = CliqueMembers::new(MAX_NODES, Clock::new(now, clock(now)));
        members.begin_slices();
        for slice in server.slices.values() {
            members.apply_slice(&NodeSlice::new(&slice.object()).unwrap(), now);
        }
        members.finish_slices(now);
        members.begin_pods();
        for pod in server.pods.values() {
            members.apply_pod(&pod.object(), now);
        }
        members.finish_pods(now);
        members.apply_template("set", Some(&server.template.to_string()), now);
        members.begin_cliques();
        for object in server.cliques.values() {
            members.apply_clique(object, now);
        }
        members.finish_cliques(now);
        Self { members }
    }

    /// A watch delivers its oldest event.
    pub(crate) fn hear(&mut self, server: &mut Server, watch: usize, now: Instant) {
        if server.watches[watch].is_empty() {
            return;
        }
        let members = &mut self.members;
        match server.watches[watch].remove(0) {
            Event::Slice(slice) => {
                members.apply_slice(&NodeSlice::new(&slice.object()).unwrap(), now);
            }
            Event::SliceGone(slice) => {
                members.remove_slice(&NodeSlice::new(&slice.object()).unwrap(), now);
            }
            Event::Pod(pod) => members.apply_pod(&pod.object(), now),
            Event::PodGone(uid) => members.remove_pod(&uid, now),
            Event::Clique(object) => members.apply_clique(&object, now),
            Event::Template(template) => {
                members.apply_template("set", Some(&template.to_string()), now);
            }
            Event::CliqueGone(name, uid) => members.remove_clique(&name, &uid, now),
        }
    }

    /// Sends one request, if one is due. Returns whether it did.
    pub(crate) fn act(
        &mut self,
        server: &mut Server,
        node_uid: impl Fn(&str) -> Option<String>,
        luck: Luck,
        now: Instant,
    ) -> bool {
        let Some((clique, step)) = self.members.next(now) else {
            return false;
        };
        if luck == Luck::RequestLost {
            self.members.failed(clique.as_ref(), &step, now);
            return true;
        }
        let done = self.make(server, clique.as_ref(), &step, node_uid, luck, now);
        if !done || luck == Luck::AnswerLost {
            self.members.failed(clique.as_ref(), &step, now);
        }
        true
    }

    fn make(
        &mut self,
        server: &mut Server,
        clique: Option<&Clique>,
        step: &MemberStep,
        node_uid: impl Fn(&str) -> Option<String>,
        luck: Luck,
        now: Instant,
    ) -> bool {
        if let MemberStep::DeletePod { uid, node, how, .. } = step {
            // Whatever the controller has missed: no process imports memory there.
            let prepared = node.as_ref().and_then(|node| server.prepared.get(&**node));
            let prepared = prepared.copied().unwrap_or_default();
            let is_member = *how != Replacement::NoMember;
            assert!(
                prepared == 0 || !is_member,
                "{node:?} has {prepared} claims"
            );
            let deleted = server.replace_pod(uid);
            if luck == Luck::Good {
                self.members.pod_deleted(clique, uid, now);
            }
            return deleted;
        }
        let clique = clique.unwrap();
        let (object, create) = match step {
            MemberStep::FindNode { node } => {
                if luck == Luck::Good {
                    self.members
                        .set_node_uid(clique, node, node_uid(node).as_deref(), now);
                }
                return true;
            }
            MemberStep::Delete {
                uid,
                resource_version,
            } => {
                let deleted = server.delete_clique(clique, resource_version);
                if deleted && luck == Luck::Good {
                    self.members.remove_clique(clique, uid, now);
                }
                return deleted;
            }
            MemberStep::ReadClaims { node, pod, .. } => {
                let allocated = server.allocated.get(&**node).copied().unwrap_or_default();
                if luck == Luck::Good {
                    let claims = vec!["ns/claim".to_owned(); allocated];
                    self.members.set_listed_claims(clique, pod, claims, now);
                }
                return true;
            }
            MemberStep::DeletePod { .. } => unreachable!("above"),
            MemberStep::Create(object) => (object, true),
            MemberStep::Replace(object) => (object, false),
        };
        let written = server.write(object, create);
        if let (Some(written), Luck::Good) = (&written, luck) {
            self.members.apply_clique(written, now);
        }
        written.is_some()
    }
}

/// The wall clock. Both clocks run alike.
fn clock(now: Instant) -> Timestamp {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let time: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    time + now.saturating_duration_since(*START)
}

impl Luck {
    pub(crate) fn random(rng: &mut Rng) -> Self {
        match rng.u8(..20) {
            0 => Self::RequestLost,
            1 => Self::AnswerLost,
            _ => Self::Good,
        }
    }
}
