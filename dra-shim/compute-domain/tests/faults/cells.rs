//! One cell of the matrix: the fault begins, kubelet calls, the fault ends, the plugin is restarted if
//! it died, kubelet repeats its calls. Then the files on disk and the answers are compared with the
//! same scenario without the fault.

use std::time::Duration;

use dra_kubelet::PreparedDevice;
use node_claims::ABSENT_FOR;
use tokio::time::{Instant, sleep};

use crate::GIVE_UP;
use crate::api::Behaviour;
use crate::armed::Armed;
use crate::kept::{Kept, spec_name};
use crate::matrix::{Fault, FirstCallResult, Step};
use crate::node::{CALL, Node, claim};

/// More than the reconciler needs for a deleted claim, which it checks for 150 s.
const RECONCILED_WITHIN: Duration = Duration::from_secs(230);

/// Kubelet's calls, with claims `a` and `b` for the same device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Scenario {
    /// kubelet calls Prepare of `a`.
    Prepare,
    /// kubelet calls Unprepare of the prepared claim `a`.
    Unprepare,
    /// The plugin starts with `a` prepared but without its spec, and with a spec without a record.
    Start,
    /// The prepared claim `a` is deleted by force; kubelet calls Prepare of `b`.
    Reconcile,
}

/// The end of a scenario.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// The answer to kubelet.
    devices: Vec<PreparedDevice>,
    /// The node's files after the scenario and after each further call of kubelet.
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

    /// Returns the end of the scenario, and the time from the end of the fault to kubelet's success.
    pub(crate) async fn run(self, fault: Option<Fault>, first: FirstCallResult) -> (End, Duration) {
        let mut node = self.begin(fault).await;
        let armed = match self {
            Self::Start => Armed::begin_and_start(&mut node, fault).await,
            _ => Armed::begin(&node, fault).await,
        };
        let outcome = self.first_call(&mut node, fault).await;
        assert_eq!(outcome, first, "{}", node.plugin.printed());
        if outcome == FirstCallResult::Dies {
            node.plugin.until_died().await;
        }
        let limit = match self {
            Self::Reconcile => RECONCILED_WITHIN,
            _ => GIVE_UP,
        };
        armed.end(&node, limit).await;
        if outcome == FirstCallResult::Dies {
            node.restart();
        }
        let began = Instant::now();
        let devices = self.settle(&node).await;
        let took = began.elapsed();
        if self == Self::Reconcile && outcome == FirstCallResult::Fails {
            check_absence(fault, took);
        }
        (self.end(&node, devices).await, took)
    }

    /// The node before the fault.
    async fn begin(self, fault: Option<Fault>) -> Node {
        let mut node = match fault {
            Some(Fault::Driver(driver) | Fault::KilledWaitingFor(driver)) => {
                let mut node = Node::start_early(&[], driver, &[]).await;
                let texts = ["registered with kubelet", "checkpoint open"];
                node.plugin.until_printed(&texts).await;
                let printed = node.plugin.printed();
                assert!(
                    !printed.contains("identified fabric clique"),
                    "the fault did not hit"
                );
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

    /// kubelet calls once during the fault.
    async fn first_call(self, node: &mut Node, fault: Option<Fault>) -> FirstCallResult {
        if self == Self::Reconcile {
            return self.first_check(node, fault).await;
        }
        if let Some(Fault::KilledDuringRequest(_) | Fault::KilledWaitingFor(_)) = fault {
            let (a, waits) = (
                claim("a"),
                matches!(fault, Some(Fault::KilledDuringRequest(_))),
            );
            let calling = node.prepare(&a);
            tokio::select! {
                answer = calling => panic!("answered: {answer:?}"),
                () = until(|| !waits || node.api.hits() > 0) => {}
            }
            node.kill();
            return FirstCallResult::Dies;
        }
        if self == Self::Start {
            // A call does not reach the plugin before kubelet has found its socket.
            until(|| node.plugin.printed().contains("registered") || is_dead(node.plugin.pid()))
                .await;
        }
        let answer = match self {
            Self::Unprepare => node.unprepare(&claim("a")).await,
            _ => node.prepare(&claim("a")).await.map(drop),
        };
        match answer {
            Ok(()) => FirstCallResult::Succeeds,
            // The connection breaks before the process has ended.
            Err(error) if is_cut(&error) => {
                node.plugin.until_died().await;
                FirstCallResult::Dies
            }
            Err(_) => FirstCallResult::Fails,
        }
    }

    /// A claim is refused, and the reconciler looks its holder up. The fault only affects the
    /// reconciler, not kubelet's call.
    async fn first_check(self, node: &mut Node, fault: Option<Fault>) -> FirstCallResult {
        assert!(node.prepare(&claim("b")).await.is_err());
        match fault {
            Some(Fault::KilledDuringRequest(_)) => {
                until(|| node.api.hits() > 0).await;
                node.kill();
                FirstCallResult::Dies
            }
            Some(Fault::Api(_, Behaviour::Delays(_))) | None => FirstCallResult::Succeeds,
            Some(_) => FirstCallResult::Fails,
        }
    }

    /// kubelet repeats its call until it succeeds.
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

    /// kubelet's next calls, with the node's files after each.
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

/// A check without an answer must not count as absence.
fn check_absence(fault: Option<Fault>, took: Duration) {
    if let Some(Fault::Api(..)) = fault {
        // The first answered check may be the one that the fault delayed.
        assert!(took + CALL >= ABSENT_FOR, "removed after {took:?}");
    }
}

/// The node's files, once they no longer change: a call that kubelet has given up may still run.
pub(crate) async fn settled(node: &Node) -> Kept {
    let (began, mut last) = (Instant::now(), node.kept());
    loop {
        sleep(Duration::from_millis(50)).await;
        let now = node.kept();
        if now == last && !now.has_temporaries() {
            return now;
        }
        assert!(
            began.elapsed() < GIVE_UP,
            "the files keep changing: {now:?}"
        );
        last = now;
    }
}

async fn until(is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < GIVE_UP, "timed out");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Whether a call failed, but not because of its deadline.
fn is_cut(error: &str) -> bool {
    error.starts_with("rpc error") && !error.contains("DeadlineExceeded")
}

/// Whether the process has ended, also as a zombie.
fn is_dead(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    state.is_empty() || state.starts_with('Z') || state.starts_with('X')
}
