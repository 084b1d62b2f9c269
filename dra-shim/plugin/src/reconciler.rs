//! Removes what kubelet leaves: unprepares deleted claims, and removes aborted records
//! whose fence has expired.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use daemon_runtime::Heartbeat;
use dra_checkpoint::{ClaimRef, Damage};
use dra_common::error_chain;
use node_claims::{AbsenceTracker, Devices, Moment, NodeClaims, Presence};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::check_schedule::{CheckSchedule, RECHECK_PAUSE};
use crate::claim_lookup::ClaimLookup;
use crate::pod_lookup::PodLookup;
use crate::reported_holders::ReportedHolders;
use crate::shared_claims::SharedClaims;

/// Compares the node's records with the API server's claims. A claim is unprepared once
/// no check has found it for [`ABSENT_FOR`](node_claims::ABSENT_FOR), and no pod on
/// the node has it.
pub struct Reconciler<D: Devices> {
    shared_claims: SharedClaims<D>,
    lookup: ClaimLookup,
    pods: PodLookup,
    holders: ReportedHolders,
    absences: AbsenceTracker,
    schedule: CheckSchedule,
    /// Claims of records without names (Go driver 25.3.x), once looked up. `None`: no such
    /// claim exists, which is final.
    found_names: BTreeMap<String, Option<ClaimRef>>,
    heartbeat: Heartbeat,
}

// === impl Reconciler ===

impl<D: Devices> Reconciler<D> {
    /// Its schedule starts now. `holders` are checked as soon as they are reported.
    pub fn new(
        shared_claims: SharedClaims<D>,
        lookup: ClaimLookup,
        pods: PodLookup,
        holders: ReportedHolders,
        heartbeat: Heartbeat,
    ) -> Self {
        Self {
            shared_claims,
            lookup,
            pods,
            holders,
            absences: AbsenceTracker::default(),
            schedule: CheckSchedule::new(Instant::now()),
            found_names: BTreeMap::new(),
            heartbeat,
        }
    }

    /// Runs until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        shutdown.run_until_cancelled(self.reconcile()).await;
    }

    async fn reconcile(&mut self) {
        let mut expire_at = Instant::now();
        loop {
            self.heartbeat.beat();
            let wake_at = self.schedule.next(self.absences.missed()).min(expire_at);
            let holder = tokio::select! {
                uid = self.holders.next() => Some(uid),
                () = sleep_until(wake_at) => None,
            };
            let now = Instant::now();
            let claims = self.usable_claims();
            if expire_at <= now {
                expire_at = now + RECHECK_PAUSE;
                if let Some(claims) = &claims {
                    expire(claims).await;
                }
            }
            self.check(claims, holder, now).await;
        }
    }

    /// `None` while the records are not known.
    fn usable_claims(&self) -> Option<Arc<NodeClaims<D>>> {
        let claims = self.shared_claims.get().ok()?;
        (claims.damage() == Damage::None).then_some(claims)
    }

    /// Checks the claims that are due, and `holder`.
    async fn check(
        &mut self,
        claims: Option<Arc<NodeClaims<D>>>,
        holder: Option<String>,
        now: Instant,
    ) {
        let recorded = claims.as_ref().map(|claims| claims.recorded_claims());
        let recorded: BTreeMap<_, _> = recorded
            .into_iter()
            .flatten()
            .map(|claim| (claim.uid.clone(), claim))
            .collect();
        let uids: BTreeSet<_> = recorded.keys().cloned().collect();
        let mut due = self.schedule.due(&uids, self.absences.missed(), now);
        let Some(claims) = claims else {
            return;
        };
        self.absences.keep_only(&uids);
        self.found_names.retain(|uid, _| uids.contains(uid));
        due.extend(holder.filter(|uid| uids.contains(uid) && self.schedule.may_check(uid, now)));
        for uid in due {
            self.heartbeat.beat();
            let presence = self.presence(&uid, &recorded).await;
            if !self.absences.observe(&uid, presence, now.into_std()) {
                continue;
            }
            let claim = recorded.get(&uid).filter(|claim| !claim.name.is_empty());
            if let Some(claim) = claim
                && self.is_in_use(&claims, claim, now).await
            {
                continue;
            }
            unprepare(&claims, uid).await;
        }
    }

    /// Whether a pod has the claim's device, or may have it. Then the wait starts again. kubelet
    /// unprepares the claim when its last pod ends.
    // req: NODE-29
    async fn is_in_use(&mut self, claims: &NodeClaims<D>, claim: &ClaimRef, now: Instant) -> bool {
        if !claims.may_be_in_use(&claim.uid) {
            return false;
        }
        let presence = self.pods.presence(claim).await;
        if presence == Presence::Present {
            warn!(
                %claim,
                "the claim is deleted, but a pod that uses it is still running; the device stays in use until that pod ends"
            );
        }
        self.absences.observe(&claim.uid, presence, now.into_std());
        presence != Presence::Absent
    }

    async fn presence(&mut self, uid: &str, recorded: &BTreeMap<String, ClaimRef>) -> Presence {
        match recorded.get(uid) {
            Some(claim) if !claim.name.is_empty() => self.lookup.presence(claim).await,
            _ => {
                if !self.found_names.contains_key(uid) {
                    self.find_names(recorded).await;
                }
                match self.found_names.get(uid) {
                    Some(Some(claim)) => self.lookup.presence(claim).await,
                    Some(None) => Presence::Absent,
                    None => Presence::Unknown,
                }
            }
        }
    }

    /// Looks up all claims without names at once: a list may take many pages.
    async fn find_names(&mut self, recorded: &BTreeMap<String, ClaimRef>) {
        let nameless = recorded.values().filter(|claim| claim.name.is_empty());
        let uids: BTreeSet<_> = nameless
            .map(|claim| claim.uid.clone())
            .filter(|uid| !self.found_names.contains_key(uid))
            .collect();
        match self.lookup.find_names(&uids).await {
            Ok(mut found) => {
                let names = uids.into_iter().map(|uid| {
                    let name = found.remove(&uid);
                    (uid, name)
                });
                self.found_names.extend(names);
            }
            Err(error) => {
                let error = error_chain(&error);
                warn!(
                    error,
                    "cannot look up the claims whose records have no claim name; retrying"
                );
            }
        }
    }
}

async fn expire<D: Devices>(claims: &Arc<NodeClaims<D>>) {
    let claims = Arc::clone(claims);
    let expired = spawn_blocking(move || claims.expire(Moment::now())).await;
    if let Ok(Err(error)) = expired {
        let error = error_chain(&error);
        warn!(error, "cannot remove expired records yet; retrying");
    }
}

async fn unprepare<D: Devices>(claims: &Arc<NodeClaims<D>>, uid: String) {
    let (claims, claim) = (Arc::clone(claims), uid.clone());
    let unprepare = move || claims.unprepare(&claim, Moment::now());
    let failure = match spawn_blocking(unprepare).await {
        Ok(Ok(())) => {
            info!(
                claim.uid = uid,
                "the plugin unprepared a deleted claim, because kubelet had not done so"
            );
            return;
        }
        Ok(Err(error)) => error_chain(&error),
        Err(join_error) => join_error.to_string(),
    };
    warn!(
        claim.uid = uid,
        error = failure,
        "cannot unprepare a deleted claim yet; retrying"
    );
}
