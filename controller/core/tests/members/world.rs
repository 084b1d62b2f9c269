//! Machines with their daemons, and the invariants.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use compute_domain_api::clique::CliqueDaemon;
use compute_domain_api::crd::ComputeDomainState;
use fastrand::Rng;

use crate::controller::{Controller, Luck, MAX_NODES};
use crate::server::{DaemonPod, ReportedClique, Server, Slice};

const NAMES: [&str; 7] = ["n0", "n1", "n2", "n3", "n4", "n5", "n6"];
const CLIQUES: [&str; 2] = [
    "aaaaaaaa-0000-0000-0000-000000000001.7",
    "bbbbbbbb-0000-0000-0000-000000000001.0",
];
/// The longest time until daemons and controller see a change.
const LONGEST_LAG: Duration = Duration::from_secs(60);
/// The longest time that a daemon runs after its pod is deleted in the API server.
const LONGEST_GHOST: Duration = Duration::from_secs(4 * 60);

/// A machine with a Node object.
#[derive(Debug)]
struct Machine {
    uid: String,
    /// Its address.
    host: String,
    clique: Option<String>,
    /// Whether its device is tainted where it has no clique.
    taints: bool,
}

/// A daemon that runs.
#[derive(Debug)]
struct Daemon {
    pod: String,
    node: String,
    host: String,
    address: String,
    /// The clique and index with which its `nvidia-imex` runs.
    runs: Option<(String, i64)>,
    heard: Instant,
    /// It has seen its node's mark, and lets no claim be prepared.
    draining: bool,
    /// When it ends, because its pod is deleted.
    ends: Option<Instant>,
}

pub(crate) struct Simulation {
    seed: u64,
    rng: Rng,
    now: Instant,
    server: Server,
    controller: Controller,
    machines: BTreeMap<String, Machine>,
    daemons: Vec<Daemon>,
    /// The UID and clique that were last published for each name.
    published: BTreeMap<String, (String, Option<String>)>,
    /// The index of each node in its clique, while it is in it.
    indices: BTreeMap<(String, String), i64>,
    /// The last machine of each name.
    hosts: BTreeMap<String, String>,
    made: usize,
    /// When the watches had last delivered everything.
    heard_all: Instant,
    calm: bool,
}

impl Simulation {
    pub(crate) fn new(seed: u64) -> Self {
        let (now, mut server) = (Instant::now(), Server::default());
        let controller = Controller::start(&mut server, now);
        Self {
            seed,
            rng: Rng::with_seed(seed),
            now,
            server,
            controller,
            machines: BTreeMap::new(),
            daemons: Vec::new(),
            published: BTreeMap::new(),
            indices: BTreeMap::new(),
            hosts: BTreeMap::new(),
            made: 0,
            heard_all: now,
            calm: false,
        }
    }

    pub(crate) fn writes(&self) -> usize {
        self.server.writes
    }

    /// Does one random thing.
    pub(crate) fn disturb(&mut self) {
        let name = NAMES[self.rng.usize(..NAMES.len())];
        match self.rng.u8(..26) {
            0..=2 => self.start_machine(name),
            3..=5 => self.publish(name),
            6 => self.server.delete_slice(name),
            7..=9 => self.start_pod(name),
            10 => self.end_pod(name),
            11 => self.force_delete_pod(name),
            12 => self.remove_machine(name),
            13 => self.move_machine(name),
            14 if self.rng.u8(..4) == 0 => {
                self.controller = Controller::start(&mut self.server, self.now);
            }
            15 => {
                if let Some(pod) = self
                    .server
                    .pods
                    .values()
                    .find(|pod| pod.node == name)
                    .cloned()
                {
                    self.server.set_pod(DaemonPod {
                        ready: false,
                        ..pod
                    });
                }
            }
            16..=18 => self.daemons_hear(0.5),
            19 if self.rng.u8(..3) == 0 => self.server.update(),
            20 | 21 => self.allocate_and_prepare(name),
            22 => self.end_claim(name),
            23 => self.spoil_and_change_leaders(),
            _ => {}
        }
        let pause = match self.rng.u8(..6) {
            0 => 30_000,
            1 => 5_000,
            _ => 200,
        };
        let pause = Duration::from_millis(self.rng.u64(1..pause));
        self.pass(pause);
    }

    /// Ends the disorder: from now on, each machine is a complete node.
    pub(crate) fn settle(&mut self) {
        self.calm = true;
        for machine in self.machines.values_mut() {
            machine.taints = true;
        }
        self.server.allocated.clear();
        self.server.prepared.clear();
    }

    /// Lets time pass, and everything happens that is due.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
        let now = self.now;
        self.daemons
            .retain(|daemon| daemon.ends.is_none_or(|at| at > now));
        if self.calm {
            self.repair();
        }
        let share = if self.calm { 1.0 } else { 0.3 };
        self.daemons_hear(share);
        let hears_all = self.calm || self.heard_all + LONGEST_LAG <= now;
        if hears_all {
            self.heard_all = now;
        }
        for watch in 0..4 {
            let count = if hears_all { 1000 } else { self.rng.usize(..4) };
            for _ in 0..count.min(self.server.watches[watch].len()) {
                self.controller.hear(&mut self.server, watch, now);
            }
        }
        for _ in 0..20 {
            let luck = if self.calm {
                Luck::Good
            } else {
                Luck::random(&mut self.rng)
            };
            if !self.calm {
                self.claims_meet_marks();
            }
            let machines = &self.machines;
            let uid = |name: &str| machines.get(name).map(|machine| machine.uid.clone());
            if !self.controller.act(&mut self.server, uid, luck, now) {
                break;
            }
            for pod in std::mem::take(&mut self.server.deleted) {
                self.daemons.retain(|daemon| daemon.pod != pod);
            }
            self.check();
        }
    }

    /// The scheduler allocates a claim and kubelet prepares it, or kubelet tries to prepare a former claim.
    fn allocate_and_prepare(&mut self, name: &str) {
        let count =
            |claims: &BTreeMap<String, usize>| claims.get(name).copied().unwrap_or_default();
        if count(&self.server.allocated) == count(&self.server.prepared) || self.rng.bool() {
            *self.server.allocated.entry(name.to_owned()).or_default() += 1;
        }
        if self.rng.bool() {
            return;
        }
        let of_node = |daemon: &&Daemon| daemon.node == name && daemon.ends.is_none();
        let mut daemons = self.daemons.iter().filter(of_node);
        let accepts = daemons
            .next()
            .is_some_and(|it| it.runs.is_some() && !it.draining);
        if accepts && daemons.next().is_none() {
            *self.server.prepared.entry(name.to_owned()).or_default() += 1;
        }
    }

    /// Kubelet prepares claims on nodes that are about to be drained, between any two requests.
    fn claims_meet_marks(&mut self) {
        let daemons = self.server.cliques.values().flat_map(|it| &it.spec.daemons);
        let marked = daemons.filter(|daemon| !daemon.draining.is_empty());
        for node in marked.map(|it| it.node_name.clone()).collect::<Vec<_>>() {
            if self.rng.u8(..4) == 0 {
                self.allocate_and_prepare(&node);
            }
        }
    }

    /// A claim ends: kubelet unprepares it if it is prepared, then it is deallocated.
    fn end_claim(&mut self, name: &str) {
        for claims in [&mut self.server.prepared, &mut self.server.allocated] {
            if let Some(count) = claims.get_mut(name) {
                *count = count.saturating_sub(1);
            }
        }
    }

    /// A node is registered: the former machine of the name, or another one. Daemons may still run on the former
    /// machine.
    fn start_machine(&mut self, name: &str) {
        if self.machines.contains_key(name) && self.rng.u8(..6) != 0 {
            return;
        }
        self.made += 1;
        let uid = format!("node-{}", self.made);
        let clique = self.any_clique();
        self.forget_indices(name);
        let former = self.hosts.get(name).filter(|_| self.rng.bool()).cloned();
        let host = former.unwrap_or_else(|| format!("host-{}", self.made));
        self.hosts.insert(name.to_owned(), host.clone());
        let ends = self.now + LONGEST_GHOST;
        for daemon in self.daemons.iter_mut().filter(|it| it.node == name) {
            daemon.ends = Some(daemon.ends.unwrap_or(ends));
        }
        // Some pods still exist, and run on the new machine with another address.
        for pod in self.pods_of(name) {
            if self.rng.bool() {
                self.server.delete_pod(&pod.uid);
            } else {
                self.daemons.retain(|daemon| daemon.pod != pod.uid);
                let address = self.new_address();
                self.start_daemon(&DaemonPod {
                    address,
                    host: host.clone(),
                    ready: false,
                    ..pod
                });
            }
        }
        // The new machine has no claims of the former one.
        self.server.prepared.remove(name);
        self.server.allocated.remove(name);
        let taints = self.rng.bool();
        self.machines.insert(
            name.to_owned(),
            Machine {
                uid,
                host,
                clique,
                taints,
            },
        );
    }

    fn any_clique(&mut self) -> Option<String> {
        let index = self.rng.usize(..9);
        CLIQUES.get(index / 4).map(|clique| (*clique).to_owned())
    }

    fn publish(&mut self, name: &str) {
        let Some(machine) = self.machines.get(name) else {
            return;
        };
        let said = match &machine.clique {
            Some(clique) => Some(ReportedClique::Clique(clique.clone())),
            None if machine.taints => Some(ReportedClique::NoClique),
            None => None,
        };
        // The attribute is sometimes missing for a moment.
        let said = said.filter(|_| self.calm || self.rng.u8(..8) > 0);
        let uid = machine.uid.clone();
        let drains = self
            .daemons
            .iter()
            .find(|it| it.node == name && it.draining);
        let prepared = self.server.prepared.get(name).copied().unwrap_or_default();
        let drained = drains.filter(|_| prepared == 0).map(|it| it.pod.clone());
        if let Some(said) = &said {
            let clique = match said {
                ReportedClique::Clique(clique) => Some(clique.clone()),
                ReportedClique::NoClique => None,
            };
            let published = (uid.clone(), clique);
            if self.published.insert(name.to_owned(), published.clone()) != Some(published) {
                self.forget_indices(name);
            }
        }
        let place = self.running_index(name);
        self.server.set_slice(Slice {
            node: name.to_owned(),
            uid,
            said,
            drained,
            place: place.map(|index| format!("{index}/{MAX_NODES}")),
        });
    }

    /// The index with which `nvidia-imex` runs on the node, in the clique of its machine.
    fn running_index(&self, name: &str) -> Option<i64> {
        let machine = self.machines.get(name)?;
        let mut daemons = self.daemons.iter();
        daemons.find_map(|daemon| {
            let (clique, index) = daemon.runs.as_ref()?;
            let is_its = daemon.node == name && daemon.host == machine.host;
            (is_its && Some(clique) == machine.clique.as_ref()).then_some(*index)
        })
    }

    /// A user edits or deletes an object, and another controller begins to lead before the former one has seen that. It
    /// restores the running places.
    fn spoil_and_change_leaders(&mut self) {
        let name = CLIQUES[self.rng.usize(..CLIQUES.len())];
        let Some(object) = self.server.cliques.get(name).cloned() else {
            return;
        };
        let members: Vec<_> = object.spec.daemons.iter().map(|it| &it.node_name).collect();
        for member in &members {
            self.publish(member);
        }
        // Only the object has the index of a member that does not run.
        let is_published = |member: &CliqueDaemon| {
            let place = format!("{}/{MAX_NODES}", member.index);
            let slice = self.server.slices.get(&member.node_name);
            // A member without a pod would not be in a new object, but would keep its index until it has one.
            self.server
                .pods
                .values()
                .any(|pod| pod.uid == member.pod_uid && !pod.ending)
                && slice.is_some_and(|it| it.said.is_some() && it.place == Some(place))
        };
        if members.is_empty() || !object.spec.daemons.iter().all(is_published) {
            return;
        }
        // Only the object has the reserved indices, too.
        let moves = self.rng.bool() || !object.spec.freed.is_empty();
        let rotation = moves.then(|| self.rng.usize(..4));
        self.server.tamper(name, rotation);
        self.controller = Controller::start(&mut self.server, self.now);
        self.now += Duration::from_secs(1);
        let machines = &self.machines;
        let uid = |name: &str| machines.get(name).map(|machine| machine.uid.clone());
        while self
            .controller
            .act(&mut self.server, uid, Luck::Good, self.now)
        {}
    }

    fn start_pod(&mut self, name: &str) {
        if !self.machines.contains_key(name) {
            return;
        }
        match self.pods_of(name).first() {
            None => {
                self.made += 1;
                let uid = format!("pod-{}", self.made);
                self.server.set_pod(DaemonPod {
                    uid,
                    node: name.to_owned(),
                    address: String::new(),
                    host: self.machines[name].host.clone(),
                    ready: false,
                    ending: false,
                    template: self.server.template,
                });
            }
            Some(pod) if pod.address.is_empty() && !pod.ending => {
                let address = self.new_address();
                self.start_daemon(&DaemonPod {
                    address,
                    ..pod.clone()
                });
            }
            Some(_) => {}
        }
    }

    /// A free address. Addresses are reused at once.
    fn new_address(&self) -> String {
        let used: BTreeSet<_> = self
            .server
            .pods
            .values()
            .map(|pod| pod.address.clone())
            .collect();
        let all = (1..).map(|number| format!("10.0.0.{number}"));
        all.into_iter()
            .find(|address| !used.contains(address))
            .unwrap()
    }

    fn start_daemon(&mut self, pod: &DaemonPod) {
        self.server.set_pod(pod.clone());
        self.daemons.push(Daemon {
            pod: pod.uid.clone(),
            node: pod.node.clone(),
            host: pod.host.clone(),
            address: pod.address.clone(),
            runs: None,
            heard: self.now,
            draining: false,
            ends: None,
        });
    }

    fn end_pod(&mut self, name: &str) {
        let Some(pod) = self.pods_of(name).into_iter().next() else {
            return;
        };
        if pod.ending {
            self.daemons.retain(|daemon| daemon.pod != pod.uid);
            self.server.delete_pod(&pod.uid);
        } else {
            self.server.set_pod(DaemonPod {
                ending: true,
                ..pod
            });
        }
    }

    fn force_delete_pod(&mut self, name: &str) {
        for pod in self.pods_of(name) {
            let ends = self.now + LONGEST_GHOST;
            for daemon in self
                .daemons
                .iter_mut()
                .filter(|daemon| daemon.pod == pod.uid)
            {
                daemon.ends = Some(ends);
            }
            self.server.delete_pod(&pod.uid);
        }
    }

    /// The Node object is deleted. Its machine may continue to run for a while.
    fn remove_machine(&mut self, name: &str) {
        self.forget_indices(name);
        if self.machines.remove(name).is_some() {
            self.server.delete_slice(name);
            self.force_delete_pod(name);
        }
    }

    fn move_machine(&mut self, name: &str) {
        let clique = self.any_clique();
        if let Some(machine) = self.machines.get_mut(name)
            && machine.clique != clique
        {
            machine.clique = clique;
            self.forget_indices(name);
        }
    }

    fn pods_of(&self, name: &str) -> Vec<DaemonPod> {
        self.server
            .pods
            .values()
            .filter(|pod| pod.node == name)
            .cloned()
            .collect()
    }

    fn forget_indices(&mut self, name: &str) {
        if let Some(machine) = self.machines.get(name) {
            let uid = machine.uid.clone();
            self.indices.retain(|(_, of), _| *of != uid);
        }
    }

    /// Some daemons, and all that have not done so for long, read the object of their clique.
    fn daemons_hear(&mut self, share: f64) {
        for number in 0..self.daemons.len() {
            let late = self.daemons[number].heard + LONGEST_LAG <= self.now;
            if late || self.rng.f64() < share {
                self.daemon_hears(number);
            }
        }
    }

    fn daemon_hears(&mut self, number: usize) {
        let daemon = &self.daemons[number];
        // Only one process at a time has the IMEX session of a machine's driver.
        let mut others = self
            .daemons
            .iter()
            .filter(|it| it.host == daemon.host && it.pod != daemon.pod);
        let is_alone = others.all(|other| other.runs.is_none());
        let machine = self.machines.get(&daemon.node);
        let machine = machine.filter(|machine| machine.host == daemon.host);
        let clique = match machine {
            Some(machine) => machine.clique.clone(),
            None => daemon.runs.clone().map(|(clique, _)| clique),
        };
        let object = clique
            .as_ref()
            .and_then(|clique| self.server.cliques.get(clique));
        let mut entries = object.into_iter().flat_map(|object| &object.spec.daemons);
        let own = entries.find(|it| {
            it.node_name == daemon.node
                && it.pod_uid == daemon.pod
                && it.ip_address == daemon.address
        });
        let runs = match (&clique, own) {
            (None, _) => None,
            (Some(clique), Some(own)) if is_alone => Some((clique.clone(), own.index)),
            _ => daemon.runs.clone(),
        };
        let draining = match own {
            Some(own) => own.draining == daemon.pod,
            None => daemon.draining,
        };
        let ready =
            is_alone && !draining && (clique.is_none() || (own.is_some() && runs.is_some()));
        let pod = daemon.pod.clone();
        let daemon = &mut self.daemons[number];
        (daemon.runs, daemon.heard) = (runs, self.now);
        daemon.draining = draining;
        if let Some(pod) = self
            .server
            .pods
            .get(&pod)
            .filter(|pod| !pod.ending)
            .cloned()
        {
            self.server.set_pod(DaemonPod { ready, ..pod });
        }
    }

    /// Other components converge: each machine has a slice and a pod, and there are no others.
    fn repair(&mut self) {
        for pod in self.server.pods.values().cloned().collect::<Vec<_>>() {
            if pod.ending || !self.machines.contains_key(&pod.node) {
                self.daemons.retain(|daemon| daemon.pod != pod.uid);
                self.server.delete_pod(&pod.uid);
            }
        }
        for name in NAMES {
            if self.machines.contains_key(name) {
                self.publish(name);
                self.start_pod(name);
            } else {
                self.server.delete_slice(name);
            }
        }
    }

    // --- invariants ---

    /// Checks the invariants that always hold.
    pub(crate) fn check(&mut self) {
        let seed = self.seed;
        let mut running = BTreeMap::new();
        for daemon in &self.daemons {
            if let Some(runs) = &daemon.runs {
                let other = running.insert(runs.clone(), daemon);
                assert!(
                    other.is_none(),
                    "seed {seed}: one index: {daemon:?} {other:?}"
                );
            }
        }
        for (clique, object) in &self.server.cliques {
            let length = i64::from(object.spec.list_length.unwrap());
            let mut taken = BTreeSet::new();
            for entry in &object.spec.daemons {
                assert!((0..length).contains(&entry.index), "seed {seed}: {entry:?}");
                assert!(taken.insert(entry.index), "seed {seed}: twice: {entry:?}");
                let lives = self.machines.get(&entry.node_name);
                let published = (entry.node_uid.clone(), Some(clique.clone()));
                let lives = lives.is_some_and(|machine| {
                    machine.uid == entry.node_uid
                        // It may still have the pod of the former machine: the pod's move is seen later.
                        && machine.host == entry.host_ip
                        && machine.clique.as_ref() == Some(clique)
                        && self.published.get(&entry.node_name) == Some(&published)
                });
                if lives {
                    let key = (clique.clone(), entry.node_uid.clone());
                    let first = *self.indices.entry(key).or_insert(entry.index);
                    assert_eq!(first, entry.index, "seed {seed}: index changed: {entry:?}");
                }
            }
        }
        for (clique, uid) in self.indices.keys() {
            let object = self.server.cliques.get(clique);
            let mut entries = object.into_iter().flat_map(|object| &object.spec.daemons);
            assert!(
                entries.any(|it| it.node_uid == *uid),
                "seed {seed}: {uid} has lost its index in {clique}"
            );
        }
    }

    /// Checks the state after the disorder has ended.
    pub(crate) fn check_settled(&self) {
        let seed = self.seed;
        for pod in self.server.pods.values() {
            // A daemon without a free index in its new clique may still run in the former one.
            let is_up_to_date = pod.template == self.server.template || !pod.ready;
            assert!(is_up_to_date, "seed {seed}: not replaced: {pod:?}");
        }
        for clique in CLIQUES {
            let in_it = |machine: &&Machine| machine.clique.as_deref() == Some(clique);
            let wanted = self.machines.values().filter(in_it).count();
            let most = usize::try_from(MAX_NODES).unwrap();
            let object = self.server.cliques.get(clique);
            let entries = object.map_or(&[][..], |object| &object.spec.daemons);
            let (members, kept): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| {
                let machine = self.machines.get(&entry.node_name);
                machine.is_some_and(|machine| in_it(&machine))
            });
            assert!(
                members.len() == wanted.min(most - kept.len()),
                "seed {seed}: {entries:?}"
            );
            assert_eq!(object.is_some(), !entries.is_empty(), "seed {seed}");
            for entry in members {
                let machine = &self.machines[&entry.node_name];
                assert_eq!(
                    machine.uid, entry.node_uid,
                    "seed {seed}: {entry:?} {:?}",
                    self.server.pods
                );
                let pod = &self.server.pods[&entry.pod_uid];
                let place = (&entry.node_name, &entry.ip_address);
                assert_eq!((&pod.node, &pod.address), place, "seed {seed}");
                assert_eq!(
                    entry.status,
                    ComputeDomainState::Ready,
                    "seed {seed}: {entry:?}"
                );
            }
            // A daemon without a free index in its new clique may still run in the former one.
            for entry in kept {
                let pod = self.server.pods.get(&entry.pod_uid);
                assert!(pod.is_some_and(|pod| !pod.ready), "seed {seed}: {entry:?}");
            }
            let surplus = wanted.saturating_sub(most);
            assert!(
                self.controller.members.counts().surplus >= surplus,
                "seed {seed}"
            );
        }
    }
}
