//! In which NVLink cliques the `ComputeDomains` hold prepared claims. Only the controller sees more than
//! one node: that `ComputeDomains` share a clique, where nothing isolates them from each other, and that
//! the pods of one are in several, between which there is no NVLink.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::index::Key;

/// `<cluster UUID>.<id>`, as the nodes report it.
pub type Clique = Arc<str>;

/// In which cliques each ComputeDomain holds prepared claims.
///
/// A ComputeDomain of which nothing is reported costs no memory.
#[derive(Debug, Default)]
pub struct Cliques {
    /// At least one each.
    of_domain: HashMap<Key, Box<[Clique]>>,
    /// Who holds claims in it, and is not isolated: at least one.
    holders: HashMap<Clique, BTreeSet<Key>>,
}

/// What is to be told to the users of one ComputeDomain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CliqueFinding {
    /// Others hold claims in these cliques, too. In none of them was there another one before.
    Shared {
        /// The cliques.
        cliques: BTreeSet<Clique>,
        /// The other `ComputeDomains`.
        with: BTreeSet<Key>,
    },
    /// It holds claims in all of these, more than one. One of them is new.
    Split {
        /// The cliques.
        cliques: BTreeSet<Clique>,
    },
}

// === impl Cliques ===

impl Cliques {
    /// The ComputeDomain holds prepared claims in these cliques, and in no others. Returns what is worse
    /// than before, for it and for others: what goes on is found once, and found again only after it has
    /// ended. So of ten that share a clique each is told once, not again with each that comes.
    pub fn set(
        &mut self,
        key: &Key,
        cliques: impl IntoIterator<Item = Box<str>>,
    ) -> Vec<(Key, CliqueFinding)> {
        self.set_as(key, cliques, false)
    }

    /// The same of a ComputeDomain that has an IMEX channel of its own: it shares no clique with anybody.
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

    /// In how many cliques more than one ComputeDomain holds claims, without being isolated.
    pub fn count_shared(&self) -> usize {
        let holders = self.holders.values();
        holders.filter(|holders| holders.len() > 1).count()
    }

    /// How many `ComputeDomains` hold claims in more than one clique.
    pub fn count_split(&self) -> usize {
        let held = self.of_domain.values();
        held.filter(|cliques| cliques.len() > 1).count()
    }

    /// The name as it is kept already, once for all that hold claims there.
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

    /// Returns for whom the clique is shared now and was not before.
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
