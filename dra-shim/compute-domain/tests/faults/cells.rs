//! One cell of the matrix: the fault is made, kubelet calls, the fault ends, the plugin is started
//! again if it died, kubelet calls as it would; what is on the disks then, and what is answered, is
//! compared with the same scenario without the fault.

use std::time::Duration;

use compute_domain_node::ABSENT_FOR;
use dra_kubelet::PreparedDevice;
use tokio::time::{Instant, sleep};

use crate::GIVE_UP;
use crate::api::Behaviour;
use crate::armed::Armed;
use crate::kept::{Kept, spec_name};
use crate::matrix::{Fault, First, Step};
use crate::node::{CALL, Node, claim};

/// More than the reconciler needs for a claim that is gone: it looks for 150 s.
const RECONCILED_WITHIN: Duration = Duration::from_secs(230);

/// What kubelet does, with claims `a` and `b` for the same device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Scenario {
    /// It calls Prepare of `a`.
    Prepare,
    /// It calls Unprepare of `a`, which is prepared.
    Unprepare,
    /// The plugin starts and finds `a` prepared, without its spec, and a spec without record.
    Start,
    /// `a` was prepared and is deleted by force; kubelet calls Prepare of `b`.
    Reconcile,
}

/// How a scenario ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// What kubelet was answered.
    devices: Vec<PreparedDevice>,
    /// After the scenario and after each of kubelet's next calls.
    kept: Vec<Kept>,
}

impl Step {
    pub(crate) fn scenario(self) -> Scenario {
        match self {
            Self::UnprepareReadRecord | Self::UnprepareRemoveSpec | Self::UnprepareRemoveRecord => {
                Scenario::Unprepare
            }
            Self::StartOpen | Self::StartBootId | Self::StartAlign => Scenario::Start,
            Self::Reconcile => Scenario::Reconcile,
            _ => Scenario::Prepare,
        }
    }
}

impl Scenario {
    pub(crate) const ALL: [Self; 4] =
        [Self::Prepare, Self::Unprepare, Self::Start, Self::Reconcile];

    /// Returns how it ends, and how long after the end of the fault kubelet had what it wanted.
    pub(crate) async fn run(self, fault: Option<Fault>, first: First) -> (End, Duration) {
        let mut node = self.begin(fault).await;
        let armed = match self {
            Self::Start => Armed::begin_and_start(&mut node, fault).await,
            _ => Armed::begin(&node, fault).await,
        };
        let outcome = self.first_call(&mut node, fault).await;
        assert_eq!(outcome, first, "{}", node.plugin.printed());
        if outcome == First::Dies {
            node.plugin.until_died().await;
        }
        let limit = match self {
            Self::Reconcile => RECONCILED_WITHIN,
            _ => GIVE_UP,
        };
        armed.end(&node, limit).await;
        if outcome == First::Dies {
            node.restart();
        }
        let began = Instant::now();
        let devices = self.settle(&node).await;
        let took = began.elapsed();
        if self == Self::Reconcile && outcome == First::Fails {
            check_absence(fault, took);
        }
        (self.end(&node, devices).await, took)
    }

    /// A node as it is before the fault.
    async fn begin(self, fault: Option<Fault>) -> Node {
        let mut node = match fault {
            Some(Fault::Driver(driver) | Fault::KilledWaitingFor(driver)) => {
                let mut node = Node::start_early(&[], driver, &[]).await;
                let texts = ["registered with kubelet", "checkpoint open"];
                node.plugin.until_printed(&texts).await;
                let printed = node.plugin.printed();
                assert!(!printed.contains("identified fabric clique"), "not met");
                return node;
            }
            _ => Node::start().await,
        };
        if self != Self::Prepare {
            node.until_prepared(&claim("a"), GIVE_UP).await;
        }
        match self {
            Self::Start => {
                node.kill();
                let spec = node.cdi().join(spec_name("a"));
                std::fs::rename(spec, node.cdi().join(spec_name("stray"))).unwrap();
            }
            Self::Reconcile => node.api.delete_claim("a"),
            Self::Prepare | Self::Unprepare => {}
        }
        node
    }

    /// kubelet calls once while the fault lasts.
    async fn first_call(self, node: &mut Node, fault: Option<Fault>) -> First {
        if self == Self::Reconcile {
            return self.first_check(node, fault).await;
        }
        if let Some(Fault::KilledAsking(_) | Fault::KilledWaitingFor(_)) = fault {
            let (a, waits) = (claim("a"), matches!(fault, Some(Fault::KilledAsking(_))));
            let calling = node.prepare(&a);
            tokio::select! {
                answer = calling => panic!("answered: {answer:?}"),
                () = until(|| !waits || node.api.hits() > 0) => {}
            }
            node.kill();
            return First::Dies;
        }
        if self == Self::Start {
            // Before kubelet has found its socket, a call does not reach the plugin.
            until(|| node.plugin.printed().contains("registered") || is_dead(node.plugin.pid()))
                .await;
        }
        let answer = match self {
            Self::Unprepare => node.unprepare(&claim("a")).await,
            _ => node.prepare(&claim("a")).await.map(drop),
        };
        match answer {
            Ok(()) => First::Succeeds,
            // The connection is cut before the process is gone.
            Err(error) if is_cut(&error) => {
                node.plugin.until_died().await;
                First::Dies
            }
            Err(_) => First::Fails,
        }
    }

    /// A claim is refused, and the reconciler looks its holder up. What the fault does to the
    /// reconciler, kubelet does not see.
    async fn first_check(self, node: &mut Node, fault: Option<Fault>) -> First {
        assert!(node.prepare(&claim("b")).await.is_err());
        match fault {
            Some(Fault::KilledAsking(_)) => {
                until(|| node.api.hits() > 0).await;
                node.kill();
                First::Dies
            }
            Some(Fault::Api(_, Behaviour::Delays(_))) | None => First::Succeeds,
            Some(_) => First::Fails,
        }
    }

    /// kubelet repeats its call until it has what it wants.
    async fn settle(self, node: &Node) -> Vec<PreparedDevice> {
        match self {
            Self::Prepare | Self::Start => node.until_prepared(&claim("a"), GIVE_UP).await,
            Self::Unprepare => {
                node.until_unprepared(&claim("a"), GIVE_UP).await;
                Vec::new()
            }
            Self::Reconcile => node.until_prepared(&claim("b"), RECONCILED_WITHIN).await,
        }
    }

    /// What kubelet does next, and what is kept each time.
    async fn end(self, node: &Node, devices: Vec<PreparedDevice>) -> End {
        let (a, b) = (claim("a"), claim("b"));
        let mut kept = vec![settled(node).await];
        if matches!(self, Self::Prepare | Self::Start) {
            let again = node.until_prepared(&a, GIVE_UP).await;
            assert_eq!(again, devices, "another answer for a prepared claim");
            let refused = node.prepare(&b).await.unwrap_err();
            assert!(refused.contains("ns/a"), "{refused}");
            kept.push(settled(node).await);
            node.until_unprepared(&a, GIVE_UP).await;
            kept.push(settled(node).await);
        }
        if self != Self::Reconcile {
            node.until_prepared(&b, GIVE_UP).await;
            kept.push(settled(node).await);
        }
        node.until_unprepared(&b, GIVE_UP).await;
        kept.push(settled(node).await);
        End { devices, kept }
    }
}

/// What the API server does not answer does not count as absence.
fn check_absence(fault: Option<Fault>, took: Duration) {
    if let Some(Fault::Api(..)) = fault {
        // The first look that is answered may be the one that the fault delayed.
        assert!(took + CALL >= ABSENT_FOR, "gone after {took:?}");
    }
}

/// What is kept, once nothing is written any more: a call that kubelet gave up may still run.
pub(crate) async fn settled(node: &Node) -> Kept {
    let (began, mut last) = (Instant::now(), node.kept());
    loop {
        sleep(Duration::from_millis(50)).await;
        let now = node.kept();
        if now == last && !now.has_temporaries() {
            return now;
        }
        assert!(began.elapsed() < GIVE_UP, "never at rest: {now:?}");
        last = now;
    }
}

async fn until(is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < GIVE_UP, "it never comes");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Whether a call failed for another reason than that it took too long.
fn is_cut(error: &str) -> bool {
    error.starts_with("rpc error") && !error.contains("DeadlineExceeded")
}

/// Also if nobody has waited for it yet.
fn is_dead(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    state.is_empty() || state.starts_with('Z') || state.starts_with('X')
}
