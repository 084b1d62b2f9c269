//! The NVLink cliques in which `ComputeDomains` hold prepared claims. Only the controller sees all nodes, so only
//! it can find two problems: `ComputeDomains` that share a clique without isolation, and a ComputeDomain with pods in
//! several cliques, between which there is no NVLink.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::index::Key;

/// The name of a clique, `<cluster UUID>.<id>`, as nodes report it.
pub type Clique = Arc<str>;

/// The cliques in which each ComputeDomain holds prepared claims.
///
/// A ComputeDomain without reports costs no memory.
#[derive(Debug, Default)]
pub struct Cliques {
    /// At least one each.
    of_domain: HashMap<Key, Box<[Clique]>>,
    /// The `ComputeDomains` without isolation that hold claims in each clique, at least one.
    holders: HashMap<Clique, BTreeSet<Key>>,
}

/// A finding about one ComputeDomain for its users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CliqueFinding {
    /// Other `ComputeDomains` hold claims in these cliques, too. That is new for each of the cliques.
    Shared {
        /// The cliques.
        cliques: BTreeSet<Clique>,
        /// The other `ComputeDomains`.
        with: BTreeSet<Key>,
    },
    /// It holds claims in several cliques. At least one of them is new.
    Split {
        /// The cliques.
        cliques: BTreeSet<Clique>,
    },
}

// === impl Cliques ===

impl Cliques {
    /// Sets the cliques in which the ComputeDomain holds prepared claims. Returns the new findings for it and for
    /// others. A finding is returned once, and again only after it has ended. So if ten `ComputeDomains` share a
    /// clique, each gets one finding, not one for each newcomer.
    pub fn set(
        &mut self,
        key: &Key,
        cliques: impl IntoIterator<Item = Box<str>>,
    ) -> Vec<(Key, CliqueFinding)> {
        self.set_as(key, cliques, false)
    }

    /// The same for a ComputeDomain with its own IMEX channel, which never counts as sharing a clique.
    pub fn set_isolated(
        &mut self,
        key: &Key,
        cliques: impl IntoIterator<Item = Box<str>>,
    ) -> Vec<(Key, CliqueFinding)> {
        self.set_as(key, cliques, true)
    }

    // req: CHANNEL-20
    fn set_as(
        &mut self,
        key: &Key,
        cliques: impl IntoIterator<Item = Box<str>>,
        isolated: bool,
    ) -> Vec<(Key, CliqueFinding)> {
        let before = self.of_domain.remove(key).into_iter().flatten();
        let before: BTreeSet<_> = before.collect();
        let now: BTreeSet<_> = cliques.into_iter().map(|it| self.shared_name(it)).collect();
        for clique in before.difference(&now) {
            self.leave(clique, key);
        }
        let new: Vec<_> = now.difference(&before).cloned().collect();
        let entered = new.iter().filter(|_| !isolated);
        let newly_shared = entered.flat_map(|clique| self.enter(clique, key));
        let mut notified = BTreeMap::<Key, BTreeSet<Clique>>::new();
        for (holder, clique) in newly_shared.collect::<Vec<_>>() {
            notified.entry(holder).or_default().insert(clique);
        }
        let shared = notified.into_iter();
        let mut findings: Vec<_> = shared
            .map(|(holder, cliques)| {
                let with = self.others(&cliques, &holder);
                (holder, CliqueFinding::Shared { cliques, with })
            })
            .collect();
        if now.len() > 1 && !new.is_empty() {
            let cliques = now.clone();
            findings.push((key.clone(), CliqueFinding::Split { cliques }));
        }
        if !now.is_empty() {
            let now = now.into_iter().collect();
            self.of_domain.insert(key.clone(), now);
        }
        findings
    }

    /// Whether the ComputeDomain is known to hold a prepared claim in any clique.
    pub fn holds_any(&self, key: &str) -> bool {
        self.of_domain.contains_key(key)
    }

    /// The `ComputeDomains` that hold a prepared claim in any clique.
    pub fn holders(&self) -> impl Iterator<Item = &Key> {
        self.of_domain.keys()
    }

    /// The number of cliques in which more than one ComputeDomain without isolation holds claims.
    pub fn count_shared(&self) -> usize {
        let holders = self.holders.values();
        holders.filter(|holders| holders.len() > 1).count()
    }

    /// The number of `ComputeDomains` that hold claims in more than one clique.
    pub fn count_split(&self) -> usize {
        let held = self.of_domain.values();
        held.filter(|cliques| cliques.len() > 1).count()
    }

    /// The shared copy of the name.
    fn shared_name(&self, clique: Box<str>) -> Clique {
        match self.holders.get_key_value(&*clique) {
            Some((name, _)) => name.clone(),
            None => clique.into(),
        }
    }

    fn leave(&mut self, clique: &Clique, key: &Key) {
        if let Some(holders) = self.holders.get_mut(clique) {
            holders.remove(key);
            if holders.is_empty() {
                self.holders.remove(clique);
            }
        }
    }

    /// Returns the `ComputeDomains` for which the clique is newly shared.
    fn enter(&mut self, clique: &Clique, key: &Key) -> Vec<(Key, Clique)> {
        let holders = self.holders.entry(clique.clone()).or_default();
        let alone = holders.first().filter(|_| holders.len() == 1).cloned();
        let newcomer = (!holders.is_empty()).then(|| key.clone());
        holders.insert(key.clone());
        let notified = alone.into_iter().chain(newcomer);
        notified.map(|holder| (holder, clique.clone())).collect()
    }

    fn others(&self, cliques: &BTreeSet<Clique>, key: &Key) -> BTreeSet<Key> {
        let holders = cliques.iter().filter_map(|it| self.holders.get(it));
        let others = holders.flatten().filter(|holder| *holder != key);
        others.cloned().collect()
    }
}

#[cfg(test)]
mod tests;
