use std::collections::BTreeMap;
use std::net::IpAddr;

use compute_domain_api::driver_managed::{DaemonPhase, NameScheme, Place};
use proptest::prelude::*;

use super::membership::{Peers, StartConfig};
use super::process::SIGNAL_PAUSE;
use super::*;

const CLIQUE: &str = "c.0";
const SECOND: Duration = Duration::from_secs(1);

fn mk_me() -> NodeIdentity {
    NodeIdentity {
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

/// A core with a simulated environment that performs its actions.
struct Harness {
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

impl Harness {
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
        let mut harness = Self::new();
        harness.core.fabric(Fabric::Clique(CLIQUE.to_owned()));
        harness.member(mk_membership(0, &[(1, 2)]));
        harness.answer(Answer::Ready);
        assert_eq!(harness.phase(), DaemonPhase::Ready, "{:?}", harness.state);
        harness
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
        panic!("the core never runs out of actions");
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
                Action::QueryStatus { run } => {
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

    /// The peers that a process resolves from the hosts file.
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

    /// Advances the time to the next query and answers it.
    fn answer(&mut self, answer: Answer) {
        self.pass_until(|harness| harness.asked.is_some());
        let run = self.asked.take().unwrap();
        let actions = self.core.answered(run, answer, self.now);
        self.perform(actions);
        self.act();
    }

    fn exit(&mut self) {
        self.process = None;
        // A query is always answered; the core ignores this answer.
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
    let mut harness = Harness::new();
    harness.act();
    assert_eq!(harness.phase(), DaemonPhase::Starting);
    assert!(
        harness.reason().contains("has not been read"),
        "{}",
        harness.reason()
    );
    harness
        .core
        .fabric(Fabric::NoClique("no GPU has a fabric".to_owned()));
    harness.act();
    assert_eq!(
        (harness.phase(), harness.unready.clone()),
        (DaemonPhase::Ready, None)
    );
    assert_eq!(harness.state.as_ref().unwrap().index, -1);
    assert_eq!(harness.process, None);
}

// req: DAEMON-1
#[test]
fn an_unresponsive_nvml_changes_nothing_and_no_clique_ends_the_process() {
    let mut harness = Harness::ready();
    harness
        .core
        .fabric(Fabric::Unknown("NVML hangs".to_owned()));
    harness.pass(60 * SECOND);
    assert_eq!(harness.starts, [StartReason::First]);
    assert_eq!(harness.core.clique(), Some(CLIQUE));
    harness.core.fabric(Fabric::NoClique("left".to_owned()));
    harness.act();
    assert_eq!(harness.reports, [Report::Restarted(StartReason::Clique)]);
    harness.exit();
    harness.act();
    assert_eq!(harness.phase(), DaemonPhase::Ready);
    assert_eq!((harness.starts.len(), &harness.process), (1, &None));
}

// req: DAEMON-3
#[test]
fn a_member_starts_nvidia_imex_and_is_ready_when_nvidia_imex_is() {
    let mut harness = Harness::new();
    harness.core.fabric(Fabric::Clique(CLIQUE.to_owned()));
    harness
        .core
        .membership(Err("not a member".to_owned()), harness.now);
    harness.pass(60 * SECOND);
    assert_eq!(
        (harness.starts.len(), harness.reason()),
        (0, "not a member")
    );
    harness.member(mk_membership(3, &[(1, 2)]));
    assert_eq!(harness.starts, [StartReason::First]);
    assert_eq!(harness.hosts.len(), 8);
    harness.answer(Answer::NotReady("INITIALIZING".to_owned()));
    assert_eq!(
        (harness.phase(), harness.reason()),
        (DaemonPhase::Starting, "INITIALIZING")
    );
    harness.answer(Answer::Ready);
    let state = harness.state.clone().unwrap();
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
fn a_joining_peer_causes_one_signal_and_a_leaving_peer_none() {
    let mut harness = Harness::ready();
    harness.member(mk_membership(0, &[(1, 2), (2, 3)]));
    assert_eq!(harness.signals.len(), 1);
    harness.pass(60 * SECOND);
    harness.member(mk_membership(0, &[(1, 2)]));
    harness.pass(60 * SECOND);
    assert_eq!((harness.signals.len(), harness.starts.len()), (1, 1));
    assert!(
        harness
            .hosts
            .iter()
            .any(|(address, _)| *address == names::UNASSIGNED)
    );
}

// req: MODE-42
#[test]
fn renewed_certificates_cause_one_signal_and_no_start_even_with_a_joining_peer() {
    let mut harness = Harness::ready();
    harness.renew_certificates();
    assert_eq!((harness.signals.len(), harness.starts.len()), (1, 1));
    // Within the five seconds in which nvidia-imex would ignore a signal.
    harness.renew_certificates();
    harness.member(mk_membership(0, &[(1, 2), (2, 3)]));
    assert_eq!(harness.signals.len(), 1);
    harness.pass(SIGNAL_PAUSE);
    assert_eq!((harness.signals.len(), harness.starts.len()), (2, 1));
    harness.pass(SIGNAL_PAUSE * 3);
    assert_eq!(harness.signals.len(), 2);
}

// req: DAEMON-4
#[test]
fn the_last_of_many_changes_within_five_seconds_is_signalled_too() {
    let mut harness = Harness::ready();
    for last in 3..8 {
        harness.member(mk_membership(0, &[(1, last)]));
        harness.pass(SECOND / 2);
    }
    assert_eq!(harness.signals.len(), 1);
    harness.pass(SIGNAL_PAUSE);
    assert_eq!(harness.signals.len(), 2);
    assert_eq!(
        harness.process.as_ref().unwrap().2,
        mk_membership(0, &[(1, 7)]).peers
    );
    harness.pass(60 * SECOND);
    assert_eq!(harness.signals.len(), 2);
}

// req: DAEMON-4
#[test]
fn a_process_that_has_not_answered_yet_is_not_signalled() {
    let mut harness = Harness::new();
    harness.core.fabric(Fabric::Clique(CLIQUE.to_owned()));
    harness.member(mk_membership(0, &[]));
    harness.member(mk_membership(0, &[(1, 2)]));
    harness.pass(SECOND);
    assert_eq!(harness.signals.len(), 0);
    harness.answer(Answer::NotReady("INITIALIZING".to_owned()));
    assert_eq!(harness.signals.len(), 1);
}

// req: DAEMON-3
#[test]
fn only_a_new_place_restarts_it() {
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
        let mut harness = Harness::ready();
        let mut membership = mk_membership(0, &[(1, 2)]);
        change(&mut membership);
        harness
            .core
            .fabric(Fabric::Clique(membership.start_config.clique.clone()));
        harness.act();
        assert_eq!(harness.starts.len(), 1);
        harness.member(membership);
        if reason != StartReason::Clique {
            assert_eq!(harness.reports, []);
            harness.pass(SETTLE);
        }
        assert_eq!(harness.reports, [Report::Restarted(reason)]);
        assert_eq!(harness.phase(), DaemonPhase::Starting);
        harness.exit();
        harness.act();
        assert_eq!(harness.starts, [StartReason::First, reason]);
        harness.answer(Answer::Ready);
        assert_eq!(harness.phase(), DaemonPhase::Ready);
    }
}

// req: DAEMON-3
#[test]
fn members_moved_by_an_edit_and_back_by_the_controller_do_not_disturb_nvidia_imex() {
    let nearly = SETTLE.checked_sub(SECOND).unwrap();
    let edits = [
        mk_membership(1, &[(0, 2), (2, 3)]),
        mk_membership(0, &[(2, 2), (1, 3)]),
    ];
    for edited in edits {
        let mut harness = Harness::ready();
        let right = mk_membership(0, &[(1, 2), (2, 3)]);
        harness.member(right.clone());
        let (hosts, signals) = (harness.hosts.clone(), harness.signals.len());
        for _ in 0..3 {
            harness.member(edited.clone());
            harness.pass(nearly);
            assert_eq!(harness.phase(), DaemonPhase::Ready);
            harness.member(right.clone());
            harness.pass(2 * SETTLE);
        }
        assert_eq!(
            (&harness.hosts, harness.signals.len(), harness.starts.len()),
            (&hosts, signals, 1)
        );
        // A lasting change is applied, even if it is written repeatedly.
        harness.member(edited.clone());
        harness.pass(nearly);
        harness.member(edited.clone());
        harness.pass(SECOND);
        assert_ne!(harness.hosts, hosts);
    }
}

/// The controller restores a clique's places from the states if the object is lost.
// req: DM-7
#[test]
fn the_state_has_the_place_of_the_process_regardless_of_the_object() {
    let mut harness = Harness::new();
    assert_eq!(harness.place(), None);
    harness.core.fabric(Fabric::Clique(CLIQUE.to_owned()));
    harness.member(mk_membership(0, &[(1, 2)]));
    let place = harness.place();
    assert_eq!(place.map(|it| it.index), Some(0));
    harness.member(mk_membership(1, &[(0, 2)]));
    assert_eq!(harness.place(), place);
    let deleted = Err("the object is deleted".to_owned());
    harness.core.membership(deleted, harness.now);
    assert_eq!(harness.place(), place);
    harness.exit();
    harness.member(mk_membership(1, &[(0, 2)]));
    assert_eq!(
        harness.place(),
        place,
        "it has not run with the other place"
    );
    harness.pass(SECOND);
    assert_eq!(harness.place().map(|it| it.index), Some(1));
    // A place in another clique than that of the GPUs does not count.
    harness.core.fabric(Fabric::Clique("d.0".to_owned()));
    assert_eq!(harness.place(), None);
}

// req: DAEMON-5
#[test]
fn a_process_that_does_not_exit_after_sigterm_is_killed() {
    let mut harness = Harness::ready();
    harness.member(mk_membership(5, &[]));
    harness.pass(SETTLE);
    assert!(harness.process.as_ref().is_some_and(|it| it.1.index == 0));
    harness.pass(10 * SECOND);
    assert!(harness.process.as_ref().is_some_and(|it| it.1.index == 5));
}

#[test]
fn facts_that_become_unknown_do_not_affect_the_running_process() {
    let mut harness = Harness::ready();
    harness
        .core
        .membership(Err("the object is deleted".to_owned()), harness.now);
    harness.pass(60 * SECOND);
    assert_eq!(
        (harness.starts.len(), harness.phase()),
        (1, DaemonPhase::Starting)
    );
    assert_eq!(harness.reason(), "the object is deleted");
    harness.member(mk_membership(0, &[(1, 2)]));
    assert_eq!(
        (harness.starts.len(), harness.phase()),
        (1, DaemonPhase::Ready)
    );
}

// req: DAEMON-5
#[test]
fn a_process_that_has_exited_is_restarted_after_growing_pauses() {
    let mut harness = Harness::ready();
    let mut pauses = Vec::new();
    for _ in 0..4 {
        let before = harness.now;
        harness.exit();
        harness.act();
        assert!(
            harness.reason().contains("exit code 1"),
            "{}",
            harness.reason()
        );
        harness.pass_until(|harness| harness.process.is_some());
        pauses.push((harness.now - before).as_millis());
    }
    assert_eq!(pauses, [250, 500, 1000, 2000]);
    assert_eq!(harness.starts[1..], [StartReason::Exited; 4]);
    assert_eq!(harness.reports, vec![Report::Ended(mk_exit()); 4]);
}

// req: DAEMON-6
#[test]
fn while_another_process_holds_the_session_it_waits_and_then_takes_over() {
    let mut harness = Harness::ready();
    for _ in 0..20 {
        harness.process = None;
        let exit = Exit {
            in_use: true,
            class: "in-use",
            ..mk_exit()
        };
        let actions = harness.core.exited(&exit, harness.now);
        harness.perform(actions);
        harness.asked = None;
        harness.act();
        assert!(
            harness.reason().contains("NV_ERR_IN_USE"),
            "{}",
            harness.reason()
        );
        let before = harness.now;
        harness.pass_until(|harness| harness.process.is_some());
        assert_eq!(harness.now - before, backoff::IN_USE);
    }
    harness.answer(Answer::Ready);
    assert_eq!(harness.phase(), DaemonPhase::Ready);
}

// req: DAEMON-6
#[test]
fn a_process_that_hangs_is_not_ready_and_is_reported_once_and_not_restarted() {
    let mut harness = Harness::ready();
    harness.answer(Answer::Unresponsive(5 * SECOND));
    assert_eq!(
        harness.phase(),
        DaemonPhase::Ready,
        "one timeout may be a busy machine"
    );
    for _ in 0..9 {
        harness.answer(Answer::Unresponsive(5 * SECOND));
        assert_eq!(harness.phase(), DaemonPhase::Starting);
    }
    assert!(
        harness.reason().contains("not responded for 50 s"),
        "{}",
        harness.reason()
    );
    assert_eq!(harness.reports, [Report::Unresponsive(10 * SECOND)]);
    assert_eq!(harness.starts.len(), 1);
    harness.answer(Answer::Ready);
    assert_eq!(harness.phase(), DaemonPhase::Ready);
}

// req: DAEMON-4
#[test]
fn a_failed_write_of_names_makes_it_unready_and_is_retried() {
    let mut harness = Harness::new();
    harness.hosts_fail = true;
    harness.core.fabric(Fabric::Clique(CLIQUE.to_owned()));
    harness.member(mk_membership(0, &[]));
    harness.pass(60 * SECOND);
    assert_eq!(
        (harness.starts.len(), harness.reason()),
        (0, "no space left")
    );
    harness.hosts_fail = false;
    harness.pass_until(|harness| harness.process.is_some());
    harness.answer(Answer::Ready);
    assert_eq!(harness.phase(), DaemonPhase::Ready);
    harness.hosts_fail = true;
    harness.pass(6 * SECOND);
    assert_eq!(
        (harness.phase(), harness.reason()),
        (DaemonPhase::Starting, "no space left")
    );
}

// req: DAEMON-4, DAEMON-8
#[test]
fn files_are_checked_every_few_seconds_without_any_event() {
    let mut harness = Harness::ready();
    harness.hosts.clear();
    harness.state = None;
    harness.pass(6 * SECOND);
    assert_eq!(harness.hosts.len(), 8);
    assert_eq!(harness.phase(), DaemonPhase::Ready);
}

// req: DAEMON-10
#[test]
fn a_pod_that_is_about_to_be_replaced_reports_draining_and_keeps_running() {
    let mut harness = Harness::ready();
    let draining = Membership {
        is_draining: true,
        ..mk_membership(0, &[(1, 2)])
    };
    harness.member(draining);
    assert_eq!(harness.phase(), DaemonPhase::Draining);
    assert_eq!((harness.unready.clone(), harness.starts.len()), (None, 1));
    // An exit of nvidia-imex does not end the draining.
    harness.exit();
    harness.act();
    assert_eq!(harness.phase(), DaemonPhase::Draining);
    assert!(harness.unready.is_some());
    harness.pass(SECOND);
    harness.answer(Answer::Ready);
    harness.member(mk_membership(0, &[(1, 2)]));
    assert_eq!(harness.phase(), DaemonPhase::Ready);
}

/// A random event.
#[derive(Debug, Clone)]
enum RandomEvent {
    Fabric(u8),
    Member(u32, Vec<(u32, u8)>),
    NoMember,
    Exit,
    Answer(u8),
    HostsFail(bool),
    Pass(u64),
}

fn happenings() -> impl Strategy<Value = Vec<RandomEvent>> {
    let peers = proptest::collection::vec((2..6u32, 2..6u8), 0..4);
    let one = prop_oneof![
        (0..3u8).prop_map(RandomEvent::Fabric),
        (0..2u32, peers).prop_map(|(index, peers)| RandomEvent::Member(index, peers)),
        Just(RandomEvent::NoMember),
        Just(RandomEvent::Exit),
        (0..3u8).prop_map(RandomEvent::Answer),
        any::<bool>().prop_map(RandomEvent::HostsFail),
        (0..8000u64).prop_map(RandomEvent::Pass),
    ];
    proptest::collection::vec(one, 1..40)
}

impl Harness {
    fn happen(&mut self, happening: RandomEvent) {
        match happening {
            RandomEvent::Fabric(0) => self.core.fabric(Fabric::Unknown("hangs".to_owned())),
            RandomEvent::Fabric(1) => self.core.fabric(Fabric::NoClique("left".to_owned())),
            RandomEvent::Fabric(_) => self.core.fabric(Fabric::Clique(CLIQUE.to_owned())),
            // The object of a clique is read only while the node is in it.
            RandomEvent::Member(index, peers) if self.core.clique().is_some() => {
                let membership = mk_membership(index, &peers);
                self.core.membership(Ok(membership), self.now);
            }
            RandomEvent::NoMember if self.core.clique().is_some() => {
                self.core.membership(Err("no".to_owned()), self.now);
            }
            RandomEvent::Exit if self.process.is_some() => self.exit(),
            RandomEvent::Answer(kind) if self.asked.is_some() => {
                let answers = [
                    Answer::Ready,
                    Answer::NotReady("no".to_owned()),
                    Answer::Unresponsive(SECOND),
                ];
                self.answer(answers[usize::from(kind)].clone());
            }
            RandomEvent::HostsFail(fail) => self.hosts_fail = fail,
            RandomEvent::Pass(ms) => self.pass(Duration::from_millis(ms)),
            RandomEvent::Member(..)
            | RandomEvent::NoMember
            | RandomEvent::Exit
            | RandomEvent::Answer(_) => {}
        }
        self.act();
        self.assert_honest();
    }

    /// Checks that `Ready` is published only for a correct process.
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
    /// After any sequence of events, the state converges to that of the last facts. `Harness` itself
    /// panics on a second process, a second query, or a signal that is too early.
    // req: DAEMON-3, DAEMON-4, DAEMON-5
    #[test]
    fn in_any_order_of_events_the_process_ends_up_right(
        events in happenings(),
        index in 0..2u32,
        peers in proptest::collection::vec((2..6u32, 2..6u8), 0..4),
    ) {
        let mut harness = Harness::new();
        for happening in events {
            harness.happen(happening);
        }
        harness.hosts_fail = false;
        harness.core.fabric(Fabric::Clique(CLIQUE.to_owned()));
        harness.member(mk_membership(index, &peers));
        // A move is applied, and nvidia-imex is started after the longest pause.
        harness.pass(SETTLE + 60 * SECOND);
        harness.pass_until(|harness| harness.asked.is_some());
        harness.answer(Answer::Ready);
        harness.pass(2 * SIGNAL_PAUSE);
        prop_assert_eq!(harness.phase(), DaemonPhase::Ready, "{:?}", harness.core);
        let (_, start_config, peers_in_hosts) = harness.process.clone().unwrap();
        prop_assert_eq!(start_config.index, index);
        for (index, address) in mk_membership(index, &peers).peers {
            prop_assert_eq!(peers_in_hosts.get(&index), Some(&address));
        }
        let starts = harness.starts.len();
        let signals = harness.signals.len();
        harness.pass(600 * SECOND);
        prop_assert_eq!((harness.starts.len(), harness.signals.len()), (starts, signals));
    }
}
