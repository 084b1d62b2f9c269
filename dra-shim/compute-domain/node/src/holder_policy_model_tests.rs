//! Model test of `HolderPolicy`: random sequences of Prepare steps, Unprepare and kills in two processes
//! must never violate the invariants. Some of the claims' domains have the same channel by mistake.

use std::collections::BTreeMap;

use compute_domain_api::{Isolation, Sharing};
use dra_checkpoint::ClaimStatus;
use imex_cdi::ChannelId;

use crate::test_objects::{
    DOMAIN, Disks, at, begin, end, mk_claim, mk_hardware, mk_input, mk_labelled_request, mk_status,
    write_spec,
};
use crate::{DomainState, HolderPolicy, NodeClaims, PrepareInput, channel_of};

const MANY: Sharing = Sharing::Many { slots: 64 };

/// Progress of a Prepare in a process.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Progress {
    Begun,
    Written,
}

/// An immutable claim of the model.
struct ModelClaim {
    uid: String,
    status: ClaimStatus,
    domain: &'static str,
    /// The number in the domain's status.
    channel: u32,
    device: u32,
}

/// Domains with their channel numbers. Two have the same one, and one is not isolated.
const DOMAINS: [(&str, u32); 4] = [
    (DOMAIN, 1),
    ("c0ffee00-0000-4000-8000-000000000002", 2),
    ("c0ffee00-0000-4000-8000-000000000003", 2),
    ("c0ffee00-0000-4000-8000-000000000004", 0),
];

fn mk_claims(random: &mut fastrand::Rng) -> Vec<ModelClaim> {
    let claims = (0..5).map(|number| {
        let (domain, channel) = DOMAINS[random.usize(..DOMAINS.len())];
        let device = if random.u32(..6) == 0 {
            random.u32(1..4)
        } else {
            0
        };
        let status = mk_status("pod", &format!("channel-{device}"));
        let status = status.to_json().replace(DOMAIN, domain);
        ModelClaim {
            uid: format!("claim-{number}"),
            status: ClaimStatus::from_json(&status).unwrap(),
            domain,
            channel,
            device,
        }
    });
    claims.collect()
}

impl ModelClaim {
    /// The channel that it opens, and the channel's owner.
    fn holding(&self, isolation: Isolation) -> (u32, &str) {
        match self.device {
            0 if isolation == Isolation::None => (0, self.domain),
            0 => (self.channel, self.domain),
            own => (own, &self.uid),
        }
    }

    fn domain_state(&self, isolation: Isolation) -> DomainState {
        match isolation {
            Isolation::None => DomainState::Unassigned,
            Isolation::Channel => DomainState::Assigned(ChannelId::new(self.channel).unwrap()),
        }
    }
}

/// Checks the invariants, which must always hold.
fn check(disks: &Disks, node: &NodeClaims, claims: &[ModelClaim], history: &[String]) {
    let HolderPolicy { isolation, sharing } = disks.holder_policy;
    let holds = |claim: &&ModelClaim| channel_of(&node.view(), &claim.uid).is_some();
    let holders: Vec<_> = claims.iter().filter(holds).collect();
    for (index, one) in holders.iter().enumerate() {
        let (channel, owner) = one.holding(isolation);
        let recorded = channel_of(&node.view(), &one.uid).unwrap().get();
        assert_eq!(recorded, channel, "{} {history:#?}", one.uid);
        for other in &holders[index + 1..] {
            let (its, its_owner) = other.holding(isolation);
            let shared_by_all = channel == 0 && isolation == Isolation::None;
            assert!(
                channel != its || owner == its_owner || shared_by_all,
                "{} and {} have channel {channel}: {history:#?}",
                one.uid,
                other.uid
            );
            assert!(
                sharing != Sharing::One || one.device != other.device,
                "{} and {} have one device: {history:#?}",
                one.uid,
                other.uid
            );
        }
    }
}

fn run(seed: u64, isolation: Isolation, sharing: Sharing) -> usize {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut disks = Disks::default().with_holder_policy(isolation, sharing);
    let claims = mk_claims(&mut random);
    let hardware = mk_hardware();
    let mut nodes = [disks.start(), disks.start()];
    let mut under_way: BTreeMap<(usize, usize), Progress> = BTreeMap::new();
    let mut history = vec![format!("seed {seed}, {isolation} {sharing}")];
    let mut completed = 0;
    for now in 0..120 {
        let (process, index) = (random.usize(..2), random.usize(..claims.len()));
        let claim = &claims[index];
        let name = mk_claim(&claim.uid);
        let request = mk_labelled_request(&claim.status).unwrap();
        let input = PrepareInput {
            domain: claim.domain_state(isolation),
            now: at(now),
            ..mk_input(&name, &claim.status, &request, &hardware)
        };
        let node = &nodes[process];
        let mut changed = false;
        match random.u32(..10) {
            0..7 => {
                let key = (process, index);
                let (what, next) = match under_way.remove(&key) {
                    None => ("begin", begin(node, input).ok().map(|()| Progress::Begun)),
                    Some(Progress::Begun) => {
                        write_spec(node, &input);
                        ("write", Some(Progress::Written))
                    }
                    Some(Progress::Written) => {
                        let ended = end(node, &input).is_ok();
                        completed += usize::from(ended);
                        changed = ended;
                        ("end", None)
                    }
                };
                history.push(format!("{process} {what} {}: {next:?}", claim.uid));
                if let Some(next) = next {
                    under_way.insert(key, next);
                }
            }
            7 | 8 => {
                history.push(format!("{process} unprepare {}", claim.uid));
                node.unprepare(&claim.uid, at(now)).unwrap();
                // As in the plugin, the Prepare does not continue in this process.
                under_way.remove(&(process, index));
            }
            _ => {
                history.push(format!("{process} is killed"));
                disks = disks.after_kill();
                nodes = [disks.start(), disks.start()];
                under_way.clear();
                changed = true;
            }
        }
        if changed {
            // A new process sees the state on disk.
            let fresh = disks.after_kill();
            check(&fresh, &fresh.start(), &claims, &history);
        }
    }
    completed
}

// req: CHANNEL-14
#[test]
fn no_sequence_gives_one_channel_to_two_owners_or_an_exclusive_device_to_two_claims() {
    for (isolation, sharing) in [
        (Isolation::None, Sharing::One),
        (Isolation::None, MANY),
        (Isolation::Channel, Sharing::One),
        (Isolation::Channel, MANY),
    ] {
        let completed: usize = (0..40).map(|seed| run(seed, isolation, sharing)).sum();
        println!("{isolation} {sharing}: {completed} claims prepared");
        assert!(completed > 40, "{isolation} {sharing}: {completed}");
    }
}
