use std::collections::BTreeMap;
use std::net::IpAddr;

use compute_domain_api::driver_managed::{DaemonPhase, NameScheme, Place};
use proptest::prelude::*;

use super::membership::{Peers, StartConfig};
use super::process::SIGNAL_PAUSE;
use super::*;

const CLIQUE: &str = "c.0";
const SECOND: Duration = Duration::from_secs(1);

fn mk_me() -> Me {
    Me {
        node: "node-a".to_owned(),
        pod_uid: "pod-a".to_owned(),
        address: "10.0.0.1".parse().unwrap(),
    }
}

fn mk_membership(index: u32, peers: &[(u32, u8)]) -> Membership {
    let address = |last| IpAddr::from([10, 0, 0, last]);
    Membership {
        start_config: StartConfig {
            clique: CLIQUE.to_owned(),
            index,
            length: 8,
            scheme: NameScheme::Hash10,
        },
        peers: peers.iter().map(|(i, last)| (*i, address(*last))).collect(),
        is_draining: false,
    }
}

fn mk_exit() -> Exit {
    Exit {
        how: "exit code 1".to_owned(),
        class: "code",
        in_use: false,
        last_line: String::new(),
    }
}

/// A core, and a world that does what it says.
struct World {
    core: Core,
    now: Instant,
    /// The process, if there is one.
    process: Option<(u64, StartConfig, Peers)>,
    asked: Option<u64>,
    /// The addresses in the hosts file.
    hosts: Vec<(IpAddr, String)>,
    hosts_fail: bool,
    signals: Vec<Instant>,
    starts: Vec<StartReason>,
    reports: Vec<Report>,
    state: Option<DaemonState>,
    unready: Option<String>,
}

impl World {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            core: Core::new(mk_me(), "boot".to_owned(), now),
            now,
            process: None,
            asked: None,
            hosts: Vec::new(),
            hosts_fail: false,
            signals: Vec::new(),
            starts: Vec::new(),
            reports: Vec::new(),
            state: None,
            unready: None,
        }
    }

    /// Running and ready at index 0, with one peer.
    fn ready() -> Self {
        let mut world = Self::new();
        world.core.fabric(Fabric::Clique(CLIQUE.to_owned()));
        world.member(mk_membership(0, &[(1, 2)]));
        world.answer(Answer::Ready);
        assert_eq!(world.phase(), DaemonPhase::Ready, "{:?}", world.state);
        world
    }

    fn member(&mut self, membership: Membership) {
        self.core.membership(Ok(membership), self.now);
        self.act();
    }

    fn renew_certificates(&mut self) {
        self.core.certificates_renewed();
        self.act();
    }

    fn act(&mut self) {
        for _ in 0..20 {
            let actions = self.core.decide(self.now);
            if actions.is_empty() {
                return;
            }
            self.perform(actions);
        }
        panic!("it never has nothing to do");
    }

    fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::WriteNames {
                    addresses,
                    own_name,
                } => {
                    let result = if self.hosts_fail {
                        Err("no space left".to_owned())
                    } else {
                        self.hosts = addresses;
                        let own = (mk_me().address, own_name);
                        assert!(self.hosts.contains(&own), "{:?}", self.hosts);
                        Ok(())
                    };
                    self.core.names_written(result, self.now);
                }
                Action::Start {
                    start_config,
                    reason,
                } => {
                    assert_eq!(self.process, None, "a second process");
                    self.starts.push(reason);
                    let peers_in_hosts = self.peers_in_hosts(&start_config);
                    self.process = Some((self.starts.len() as u64, start_config, peers_in_hosts));
                }
                Action::Signal => {
                    if let Some(last) = self.signals.last() {
                        assert!(self.now - *last >= SIGNAL_PAUSE, "it would be ignored");
                    }
                    self.signals.push(self.now);
                    let start_config = self.process.as_ref().unwrap().1.clone();
                    let peers_in_hosts = self.peers_in_hosts(&start_config);
                    self.process.as_mut().unwrap().2 = peers_in_hosts;
                }
                Action::Terminate => assert!(self.process.is_some()),
                Action::Kill => self.exit(),
                Action::Ask { run } => {
                    assert_eq!(self.asked.replace(run), None, "two questions at once");
                }
                Action::ReadFabric => {}
                Action::Publish { state, unready } => {
                    self.state = Some(state);
                    self.unready = unready;
                }
                Action::Report(report) => self.reports.push(report),
            }
        }
    }

    /// What a process that looks all names up finds.
    fn peers_in_hosts(&self, start_config: &StartConfig) -> Peers {
        let indices: BTreeMap<String, u32> = start_config
            .scheme
            .host_names(&start_config.clique, start_config.length)
            .zip(0..)
            .collect();
        let peers = self.hosts.iter();
        peers
            .filter(|(address, _)| *address != names::UNASSIGNED && *address != mk_me().address)
            .map(|(address, name)| (indices[name], *address))
            .collect()
    }

    /// Time passes until the next question, which is answered.
    fn answer(&mut self, answer: Answer) {
        self.pass_until(|world| world.asked.is_some());
        let run = self.asked.take().unwrap();
        let actions = self.core.answered(run, answer, self.now);
        self.perform(actions);
        self.act();
    }

    fn exit(&mut self) {
        self.process = None;
        // A question is answered in any case, and the answer is of no interest.
        if let Some(run) = self.asked.take() {
            let actions = self.core.answered(run, Answer::Ready, self.now);
            self.perform(actions);
        }
        let actions = self.core.exited(&mk_exit(), self.now);
        self.perform(actions);
    }

    fn pass(&mut self, duration: Duration) {
        let until = self.now + duration;
        while self.core.wake_at() < until {
            self.now = self.now.max(self.core.wake_at());
            self.act();
        }
        self.now = until;
        self.act();
    }

    fn pass_until(&mut self, is_true: impl Fn(&Self) -> bool) {
        for _ in 0..200 {
            if is_true(self) {
                return;
            }
            self.now = self.now.max(self.core.wake_at());
            self.act();
        }
        panic!("it does not become true: {:?}", self.core);
    }

    fn place(&self) -> Option<Place> {
        self.core.state().0.place
    }

    fn phase(&self) -> DaemonPhase {
        self.state.as_ref().unwrap().phase
    }

    fn reason(&self) -> &str {
        &self.state.as_ref().unwrap().reason
    }
}

// req: DAEMON-1
#[test]
fn a_node_without_a_clique_is_ready_and_runs_nothing() {
    let mut world = World::new();
    world.act();
    assert_eq!(world.phase(), DaemonPhase::Starting);
    assert!(
        world.reason().contains("has not been read"),
        "{}",
        world.reason()
    );
    world
        .core
        .fabric(Fabric::NoClique("no GPU has a fabric".to_owned()));
    world.act();
    assert_eq!(
        (world.phase(), world.unready.clone()),
        (DaemonPhase::Ready, None)
    );
    assert_eq!(world.state.as_ref().unwrap().index, -1);
    assert_eq!(world.process, None);
}

// req: DAEMON-1
#[test]
fn nvml_that_answers_no_more_changes_nothing_and_no_clique_ends_the_process() {
    let mut world = World::ready();
    world.core.fabric(Fabric::Unknown("NVML hangs".to_owned()));
    world.pass(60 * SECOND);
    assert_eq!(world.starts, [StartReason::First]);
    assert_eq!(world.core.clique(), Some(CLIQUE));
    world.core.fabric(Fabric::NoClique("left".to_owned()));
    world.act();
    assert_eq!(world.reports, [Report::Moved(StartReason::Clique)]);
    world.exit();
    world.act();
    assert_eq!(world.phase(), DaemonPhase::Ready);
    assert_eq!((world.starts.len(), &world.process), (1, &None));
}

// req: DAEMON-3
#[test]
fn it_starts_when_it_is_a_member_and_is_ready_when_nvidia_imex_is() {
    let mut world = World::new();
    world.core.fabric(Fabric::Clique(CLIQUE.to_owned()));
    world
        .core
        .membership(Err("not a member".to_owned()), world.now);
    world.pass(60 * SECOND);
    assert_eq!((world.starts.len(), world.reason()), (0, "not a member"));
    world.member(mk_membership(3, &[(1, 2)]));
    assert_eq!(world.starts, [StartReason::First]);
    assert_eq!(world.hosts.len(), 8);
    world.answer(Answer::NotReady("INITIALIZING".to_owned()));
    assert_eq!(
        (world.phase(), world.reason()),
        (DaemonPhase::Starting, "INITIALIZING")
    );
    world.answer(Answer::Ready);
    let state = world.state.clone().unwrap();
    assert_eq!(
        (state.phase, state.index, state.reason.as_str()),
        (DaemonPhase::Ready, 3, "")
    );
    assert_eq!(
        (state.boot_id.as_str(), state.pod_uid.as_str()),
        ("boot", "pod-a")
    );
}

// req: DAEMON-4
#[test]
fn a_peer_that_joins_is_one_signal_and_one_that_leaves_is_none() {
    let mut world = World::ready();
    world.member(mk_membership(0, &[(1, 2), (2, 3)]));
    assert_eq!(world.signals.len(), 1);
    world.pass(60 * SECOND);
    world.member(mk_membership(0, &[(1, 2)]));
    world.pass(60 * SECOND);
    assert_eq!((world.signals.len(), world.starts.len()), (1, 1));
    assert!(
        world
            .hosts
            .iter()
            .any(|(address, _)| *address == names::UNASSIGNED)
    );
}

// req: MODE-42
#[test]
fn renewed_certificates_are_one_signal_and_no_start_also_with_a_peer_that_joins() {
    let mut world = World::ready();
    world.renew_certificates();
    assert_eq!((world.signals.len(), world.starts.len()), (1, 1));
    // Within the five seconds in which it would ignore them.
    world.renew_certificates();
    world.member(mk_membership(0, &[(1, 2), (2, 3)]));
    assert_eq!(world.signals.len(), 1);
    world.pass(SIGNAL_PAUSE);
    assert_eq!((world.signals.len(), world.starts.len()), (2, 1));
    world.pass(SIGNAL_PAUSE * 3);
    assert_eq!(world.signals.len(), 2);
}

// req: DAEMON-4
#[test]
fn of_many_changes_within_five_seconds_the_last_one_is_signalled_too() {
    let mut world = World::ready();
    for last in 3..8 {
        world.member(mk_membership(0, &[(1, last)]));
        world.pass(SECOND / 2);
    }
    assert_eq!(world.signals.len(), 1);
    world.pass(SIGNAL_PAUSE);
    assert_eq!(world.signals.len(), 2);
    assert_eq!(
        world.process.as_ref().unwrap().2,
        mk_membership(0, &[(1, 7)]).peers
    );
    world.pass(60 * SECOND);
    assert_eq!(world.signals.len(), 2);
}

// req: DAEMON-4
#[test]
fn a_process_that_has_not_answered_yet_is_not_signalled() {
    let mut world = World::new();
    world.core.fabric(Fabric::Clique(CLIQUE.to_owned()));
    world.member(mk_membership(0, &[]));
    world.member(mk_membership(0, &[(1, 2)]));
    world.pass(SECOND);
    assert_eq!(world.signals.len(), 0);
    world.answer(Answer::NotReady("INITIALIZING".to_owned()));
    assert_eq!(world.signals.len(), 1);
}

// req: DAEMON-3
#[test]
fn only_another_place_starts_it_anew() {
    type Change = fn(&mut Membership);
    let changes: [(Change, StartReason); 3] = [
        (|it| it.start_config.index = 5, StartReason::Index),
        (|it| it.start_config.length = 9, StartReason::List),
        (
            |it| it.start_config.clique = "d.0".to_owned(),
            StartReason::Clique,
        ),
    ];
    for (change, reason) in changes {
        let mut world = World::ready();
        let mut membership = mk_membership(0, &[(1, 2)]);
        change(&mut membership);
        world
            .core
            .fabric(Fabric::Clique(membership.start_config.clique.clone()));
        world.act();
        assert_eq!(world.starts.len(), 1);
        world.member(membership);
        if reason != StartReason::Clique {
            assert_eq!(world.reports, []);
            world.pass(SETTLE);
        }
        assert_eq!(world.reports, [Report::Moved(reason)]);
        assert_eq!(world.phase(), DaemonPhase::Starting);
        world.exit();
        world.act();
        assert_eq!(world.starts, [StartReason::First, reason]);
        world.answer(Answer::Ready);
        assert_eq!(world.phase(), DaemonPhase::Ready);
    }
}

// req: DAEMON-3
#[test]
fn members_that_somebody_moves_and_the_controller_moves_back_disturb_no_nvidia_imex() {
    let nearly = SETTLE.checked_sub(SECOND).unwrap();
    let edits = [
        mk_membership(1, &[(0, 2), (2, 3)]),
        mk_membership(0, &[(2, 2), (1, 3)]),
    ];
    for edited in edits {
        let mut world = World::ready();
        let right = mk_membership(0, &[(1, 2), (2, 3)]);
        world.member(right.clone());
        let (hosts, signals) = (world.hosts.clone(), world.signals.len());
        for _ in 0..3 {
            world.member(edited.clone());
            world.pass(nearly);
            assert_eq!(world.phase(), DaemonPhase::Ready);
            world.member(right.clone());
            world.pass(2 * SETTLE);
        }
        assert_eq!(
            (&world.hosts, world.signals.len(), world.starts.len()),
            (&hosts, signals, 1)
        );
        // What stays is followed, however often it is written.
        world.member(edited.clone());
        world.pass(nearly);
        world.member(edited.clone());
        world.pass(SECOND);
        assert_ne!(world.hosts, hosts);
    }
}

/// The controller takes the places of a clique from there, when nobody has the object as it was.
// req: DM-7
#[test]
fn the_state_has_the_place_of_the_process_whatever_the_object_says() {
    let mut world = World::new();
    assert_eq!(world.place(), None);
    world.core.fabric(Fabric::Clique(CLIQUE.to_owned()));
    world.member(mk_membership(0, &[(1, 2)]));
    let place = world.place();
    assert_eq!(place.map(|it| it.index), Some(0));
    world.member(mk_membership(1, &[(0, 2)]));
    assert_eq!(world.place(), place);
    let gone = Err("the object is gone".to_owned());
    world.core.membership(gone, world.now);
    assert_eq!(world.place(), place);
    world.exit();
    world.member(mk_membership(1, &[(0, 2)]));
    assert_eq!(world.place(), place, "it has not run with the other one");
    world.pass(SECOND);
    assert_eq!(world.place().map(|it| it.index), Some(1));
    // Of another clique than the GPUs are in, it is none.
    world.core.fabric(Fabric::Clique("d.0".to_owned()));
    assert_eq!(world.place(), None);
}

// req: DAEMON-5
#[test]
fn one_that_does_not_end_after_sigterm_is_killed() {
    let mut world = World::ready();
    world.member(mk_membership(5, &[]));
    world.pass(SETTLE);
    assert!(world.process.as_ref().is_some_and(|it| it.1.index == 0));
    world.pass(10 * SECOND);
    assert!(world.process.as_ref().is_some_and(|it| it.1.index == 5));
}

#[test]
fn what_is_not_known_any_more_changes_nothing_of_what_runs() {
    let mut world = World::ready();
    world
        .core
        .membership(Err("the object is gone".to_owned()), world.now);
    world.pass(60 * SECOND);
    assert_eq!(
        (world.starts.len(), world.phase()),
        (1, DaemonPhase::Starting)
    );
    assert_eq!(world.reason(), "the object is gone");
    world.member(mk_membership(0, &[(1, 2)]));
    assert_eq!((world.starts.len(), world.phase()), (1, DaemonPhase::Ready));
}

// req: DAEMON-5
#[test]
fn one_that_has_ended_is_started_again_after_pauses_that_grow() {
    let mut world = World::ready();
    let mut pauses = Vec::new();
    for _ in 0..4 {
        let before = world.now;
        world.exit();
        world.act();
        assert!(world.reason().contains("exit code 1"), "{}", world.reason());
        world.pass_until(|world| world.process.is_some());
        pauses.push((world.now - before).as_millis());
    }
    assert_eq!(pauses, [250, 500, 1000, 2000]);
    assert_eq!(world.starts[1..], [StartReason::Exited; 4]);
    assert_eq!(world.reports, vec![Report::Ended(mk_exit()); 4]);
}

// req: DAEMON-6
#[test]
fn while_another_has_the_session_it_waits_and_takes_over() {
    let mut world = World::ready();
    for _ in 0..20 {
        world.process = None;
        let exit = Exit {
            in_use: true,
            class: "in-use",
            ..mk_exit()
        };
        let actions = world.core.exited(&exit, world.now);
        world.perform(actions);
        world.asked = None;
        world.act();
        assert!(
            world.reason().contains("NV_ERR_IN_USE"),
            "{}",
            world.reason()
        );
        let before = world.now;
        world.pass_until(|world| world.process.is_some());
        assert_eq!(world.now - before, backoff::IN_USE);
    }
    world.answer(Answer::Ready);
    assert_eq!(world.phase(), DaemonPhase::Ready);
}

// req: DAEMON-6
#[test]
fn one_that_hangs_is_not_ready_is_reported_once_and_not_restarted() {
    let mut world = World::ready();
    world.answer(Answer::Unresponsive(5 * SECOND));
    assert_eq!(
        world.phase(),
        DaemonPhase::Ready,
        "one silence may be a busy machine"
    );
    for _ in 0..9 {
        world.answer(Answer::Unresponsive(5 * SECOND));
        assert_eq!(world.phase(), DaemonPhase::Starting);
    }
    assert!(
        world.reason().contains("not answered for 50 s"),
        "{}",
        world.reason()
    );
    assert_eq!(world.reports, [Report::Unresponsive(10 * SECOND)]);
    assert_eq!(world.starts.len(), 1);
    world.answer(Answer::Ready);
    assert_eq!(world.phase(), DaemonPhase::Ready);
}

// req: DAEMON-4
#[test]
fn names_that_cannot_be_written_are_a_reason_and_are_tried_again() {
    let mut world = World::new();
    world.hosts_fail = true;
    world.core.fabric(Fabric::Clique(CLIQUE.to_owned()));
    world.member(mk_membership(0, &[]));
    world.pass(60 * SECOND);
    assert_eq!((world.starts.len(), world.reason()), (0, "no space left"));
    world.hosts_fail = false;
    world.pass_until(|world| world.process.is_some());
    world.answer(Answer::Ready);
    assert_eq!(world.phase(), DaemonPhase::Ready);
    world.hosts_fail = true;
    world.pass(6 * SECOND);
    assert_eq!(
        (world.phase(), world.reason()),
        (DaemonPhase::Starting, "no space left")
    );
}

// req: DAEMON-4, DAEMON-8
#[test]
fn files_are_looked_at_again_every_few_seconds_though_nothing_happens() {
    let mut world = World::ready();
    world.hosts.clear();
    world.state = None;
    world.pass(6 * SECOND);
    assert_eq!(world.hosts.len(), 8);
    assert_eq!(world.phase(), DaemonPhase::Ready);
}

// req: DAEMON-10
#[test]
fn a_pod_that_is_about_to_be_replaced_says_so_and_goes_on() {
    let mut world = World::ready();
    let draining = Membership {
        is_draining: true,
        ..mk_membership(0, &[(1, 2)])
    };
    world.member(draining);
    assert_eq!(world.phase(), DaemonPhase::Draining);
    assert_eq!((world.unready.clone(), world.starts.len()), (None, 1));
    // Nothing that happens to nvidia-imex meanwhile ends the draining.
    world.exit();
    world.act();
    assert_eq!(world.phase(), DaemonPhase::Draining);
    assert!(world.unready.is_some());
    world.pass(SECOND);
    world.answer(Answer::Ready);
    world.member(mk_membership(0, &[(1, 2)]));
    assert_eq!(world.phase(), DaemonPhase::Ready);
}

/// Something that happens.
#[derive(Debug, Clone)]
enum Happening {
    Fabric(u8),
    Member(u32, Vec<(u32, u8)>),
    NoMember,
    Exit,
    Answer(u8),
    HostsFail(bool),
    Pass(u64),
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let peers = proptest::collection::vec((2..6u32, 2..6u8), 0..4);
    let one = prop_oneof![
        (0..3u8).prop_map(Happening::Fabric),
        (0..2u32, peers).prop_map(|(index, peers)| Happening::Member(index, peers)),
        Just(Happening::NoMember),
        Just(Happening::Exit),
        (0..3u8).prop_map(Happening::Answer),
        any::<bool>().prop_map(Happening::HostsFail),
        (0..8000u64).prop_map(Happening::Pass),
    ];
    proptest::collection::vec(one, 1..40)
}

impl World {
    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Fabric(0) => self.core.fabric(Fabric::Unknown("hangs".to_owned())),
            Happening::Fabric(1) => self.core.fabric(Fabric::NoClique("left".to_owned())),
            Happening::Fabric(_) => self.core.fabric(Fabric::Clique(CLIQUE.to_owned())),
            // The object of a clique is read only while the node is in it.
            Happening::Member(index, peers) if self.core.clique().is_some() => {
                let membership = mk_membership(index, &peers);
                self.core.membership(Ok(membership), self.now);
            }
            Happening::NoMember if self.core.clique().is_some() => {
                self.core.membership(Err("no".to_owned()), self.now);
            }
            Happening::Exit if self.process.is_some() => self.exit(),
            Happening::Answer(kind) if self.asked.is_some() => {
                let answers = [
                    Answer::Ready,
                    Answer::NotReady("no".to_owned()),
                    Answer::Unresponsive(SECOND),
                ];
                self.answer(answers[usize::from(kind)].clone());
            }
            Happening::HostsFail(fail) => self.hosts_fail = fail,
            Happening::Pass(ms) => self.pass(Duration::from_millis(ms)),
            Happening::Member(..)
            | Happening::NoMember
            | Happening::Exit
            | Happening::Answer(_) => {}
        }
        self.act();
        self.assert_honest();
    }

    /// Ready is said only of a process that is right.
    fn assert_honest(&self) {
        if self.phase() != DaemonPhase::Ready || self.state.as_ref().unwrap().clique.is_empty() {
            return;
        }
        let (_, start_config, _) = self.process.as_ref().unwrap();
        assert_eq!(
            i64::from(start_config.index),
            self.state.as_ref().unwrap().index
        );
        let own = (mk_me().address, start_config.own_name());
        assert!(self.hosts.contains(&own));
    }
}

proptest! {
    /// However things happen, once they stop everything is as if they had happened alone. `World` itself
    /// refuses a second process, a second question, and a signal too early.
    // req: DAEMON-3, DAEMON-4, DAEMON-5
    #[test]
    fn in_any_order_of_events_the_process_ends_up_right(
        events in happenings(),
        index in 0..2u32,
        peers in proptest::collection::vec((2..6u32, 2..6u8), 0..4),
    ) {
        let mut world = World::new();
        for happening in events {
            world.happen(happening);
        }
        world.hosts_fail = false;
        world.core.fabric(Fabric::Clique(CLIQUE.to_owned()));
        world.member(mk_membership(index, &peers));
        // A move is followed, and nvidia-imex is started after the longest pause.
        world.pass(SETTLE + 60 * SECOND);
        world.pass_until(|world| world.asked.is_some());
        world.answer(Answer::Ready);
        world.pass(2 * SIGNAL_PAUSE);
        prop_assert_eq!(world.phase(), DaemonPhase::Ready, "{:?}", world.core);
        let (_, start_config, peers_in_hosts) = world.process.clone().unwrap();
        prop_assert_eq!(start_config.index, index);
        for (index, address) in mk_membership(index, &peers).peers {
            prop_assert_eq!(peers_in_hosts.get(&index), Some(&address));
        }
        let starts = world.starts.len();
        let signals = world.signals.len();
        world.pass(600 * SECOND);
        prop_assert_eq!((world.starts.len(), world.signals.len()), (starts, signals));
    }
}
