//! Random sequences of kubelet's calls, crashes, reboots and forced deletions, checked with a model
//! of the device's holder.

use std::collections::BTreeMap;
use std::time::Duration;

use dra_kubelet::PreparedDevice;
use tokio::time::sleep;

use crate::GIVE_UP;
use crate::cells::settled;
use crate::node::{Node, claim};

/// Operations per sequence.
const LENGTH: usize = 16;

/// Names of the claims, all for the same device.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Typical duration of a call; the plugin is killed within it.
const CALL_TAKES: Duration = Duration::from_millis(20);

/// A node, and the model of its state.
pub(crate) struct Sequence {
    random: fastrand::Rng,
    history: Vec<String>,
    node: Node,
    boots: u32,
    /// How many claims have had each name.
    incarnations: [u32; 3],
    /// Whether the claims of these names exist.
    exist: [bool; 3],
    /// The UID of the claim that holds the device.
    holder: Option<String>,
    /// The first answer for each claim.
    answers: BTreeMap<String, Vec<PreparedDevice>>,
}

impl Sequence {
    pub(crate) async fn start(seed: u64) -> Self {
        let mut sequence = Self {
            random: fastrand::Rng::with_seed(seed),
            history: vec![format!("seed {seed}")],
            node: Node::start().await,
            boots: 0,
            incarnations: [0; 3],
            exist: [true; 3],
            holder: None,
            answers: BTreeMap::new(),
        };
        for index in 0..NAMES.len() {
            sequence.put_new_claim(index);
        }
        sequence
    }

    pub(crate) async fn run(mut self) {
        for _ in 0..LENGTH {
            let index = self.random.usize(..NAMES.len());
            match self.random.u32(0..100) {
                0..30 => self.prepare(index).await,
                30..40 => self.prepare_again().await,
                40..55 => self.unprepare(self.uid(index)).await,
                55..65 => self.unprepare_holder().await,
                65..72 => self.kill().await,
                72..82 => self.kill_in_prepare(index).await,
                82..88 => self.kill_in_unprepare(index).await,
                88..94 => self.reboot().await,
                _ => self.delete_by_force(index),
            }
            self.look().await;
        }
    }

    fn log(&mut self, what: String) {
        self.history.push(what);
    }

    fn check(&self, is_so: bool, what: &str) {
        let history = || self.history.join("\n  ");
        assert!(
            is_so,
            "{what}: {}\n{}",
            history(),
            self.node.plugin.printed()
        );
    }

    /// The UID of the current or last claim of this name.
    fn uid(&self, index: usize) -> String {
        format!("{}-{}", NAMES[index], self.incarnations[index])
    }

    fn put_new_claim(&mut self, index: usize) {
        self.incarnations[index] += 1;
        self.exist[index] = true;
        self.node.api.put_claim(NAMES[index], &self.uid(index));
    }

    fn is_free_for(&self, uid: &str) -> bool {
        self.holder.as_deref().is_none_or(|holder| holder == uid)
    }

    async fn prepare(&mut self, index: usize) {
        let uid = self.uid(index);
        self.log(format!("prepare {uid}"));
        if self.exist[index] && self.is_free_for(&uid) {
            let devices = self.node.until_prepared(&claim(&uid), GIVE_UP).await;
            let first = self
                .answers
                .entry(uid.clone())
                .or_insert_with(|| devices.clone());
            let is_same = *first == devices;
            self.check(is_same, "the answer differs from the first one");
            self.holder = Some(uid);
            return;
        }
        let answer = self.node.prepare(&claim(&uid)).await;
        let error = answer.err().unwrap_or_default();
        let expected = if self.exist[index] {
            "in use by claim"
        } else {
            "does not exist"
        };
        // kubelet may not have found a plugin yet that has just started.
        let is_refused = error.contains(expected) || error.starts_with("rpc error");
        self.check(is_refused, &format!("{uid} is not refused: {error:?}"));
    }

    async fn prepare_again(&mut self) {
        let holder = self.holder.clone();
        let index = holder.and_then(|uid| (0..NAMES.len()).find(|&it| self.uid(it) == uid));
        if let Some(index) = index {
            self.prepare(index).await;
        }
    }

    async fn unprepare_holder(&mut self) {
        if let Some(uid) = self.holder.clone() {
            self.unprepare(uid).await;
        }
    }

    async fn unprepare(&mut self, uid: String) {
        self.log(format!("unprepare {uid}"));
        self.node.until_unprepared(&claim(&uid), GIVE_UP).await;
        self.holder.take_if(|holder| *holder == uid);
    }

    async fn kill(&mut self) {
        self.log("kill".to_owned());
        self.node.kill();
        self.node.restart();
        self.node.until_ready().await;
    }

    async fn kill_in_prepare(&mut self, index: usize) {
        let uid = self.uid(index);
        let after = CALL_TAKES.mul_f64(self.random.f64());
        self.log(format!("prepare {uid}, killed after {after:?}"));
        let answer = tokio::select! {
            answer = async { self.node.prepare(&claim(&uid)).await } => Some(answer),
            () = sleep(after) => None,
        };
        self.kill().await;
        if !self.exist[index] || !self.is_free_for(&uid) {
            return;
        }
        if let Some(Ok(_)) = answer {
            self.holder = Some(uid);
        } else if self.random.bool() {
            self.prepare(index).await;
        } else {
            // The pod is deleted. A fence may be left for the claim, so create another claim.
            self.holder = None;
            self.unprepare(uid).await;
            self.put_new_claim(index);
        }
    }

    async fn kill_in_unprepare(&mut self, index: usize) {
        let uid = match &self.holder {
            Some(holder) => holder.clone(),
            None => self.uid(index),
        };
        let after = CALL_TAKES.mul_f64(self.random.f64());
        self.log(format!("unprepare {uid}, killed after {after:?}"));
        tokio::select! {
            _ = async { self.node.unprepare(&claim(&uid)).await } => {}
            () = sleep(after) => {}
        };
        self.kill().await;
        self.unprepare(uid).await;
    }

    async fn reboot(&mut self) {
        self.boots += 1;
        let loses_cdi = self.random.bool();
        self.log(format!("reboot, CDI on tmpfs: {loses_cdi}"));
        let boot = format!("00000000-0000-4000-8000-{:012}", self.boots);
        self.node.reboot(&boot, loses_cdi).await;
        self.node.until_ready().await;
        self.holder = None;
    }

    /// kubelet is not involved. Another claim may get the name.
    fn delete_by_force(&mut self, index: usize) {
        self.log(format!("delete {} by force", self.uid(index)));
        self.node.api.delete_claim(NAMES[index]);
        self.exist[index] = false;
        if self.random.bool() {
            self.put_new_claim(index);
        }
    }

    /// Checks the invariants after each operation.
    async fn look(&self) {
        let kept = settled(&self.node).await;
        let holders: Vec<_> = self.holder.iter().map(String::as_str).collect();
        self.check(
            kept.holders() == holders,
            &format!("held by {:?} instead of {holders:?}", kept.holders()),
        );
        for holder in holders {
            self.check(
                kept.spec_of(holder).is_some(),
                "a prepared claim has no spec",
            );
        }
        for uid in kept.claims_with_specs() {
            let has_record = kept.records.contains_key(uid);
            self.check(has_record, "a spec has no record");
        }
    }
}
