//! The index of the `ComputeDomains`, their templates and the names of their claims, from the watches.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use compute_domain_api::crd::ComputeDomainState;
use k8s_openapi::jiff::Timestamp;

use crate::channel_lease::ChannelLease;
use crate::channels::ObservedChannels;
use crate::domain::Domain;
use crate::index::numbers::Numbers;
use crate::index::versioned::Versioned;
use crate::observed_template::{ObservedTemplate, Target};

mod leases;
mod numbers;
mod versioned;

/// The objects from the watches, by the UID of the ComputeDomain. Synchronous, without I/O.
///
/// Responses to our own requests are stored, too, so that the next decision sees the effect of the last one,
/// however late the watch is. Of two copies of an object the newer one is kept.
///
/// # Guarantees
/// * An object is removed only when its watch delivers that it is deleted.
/// * A late event never replaces a newer object.
#[derive(Debug, Default)]
pub struct Index {
    domains: Versioned<Arc<Domain>>,
    templates: Versioned<Arc<ObservedTemplate>>,
    /// UIDs of the templates by the UID in their label.
    template_uids: HashMap<Key, Vec<Box<str>>>,
    /// Namespace and name of the claims by the UID in their label.
    claims: HashMap<Key, BTreeSet<ClaimName>>,
    /// The claims in the current list, while the watch lists again.
    listed_claims: Option<HashMap<Key, BTreeSet<ClaimName>>>,
    numbers: Numbers,
}

/// The UID of a ComputeDomain: the key of the queue. The ComputeDomain may not exist: any user can set a label.
pub type Key = Arc<str>;

/// Namespace and name of a `ResourceClaim`.
pub type ClaimName = (Box<str>, Box<str>);

/// Everything observed for one UID of a ComputeDomain.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// The ComputeDomain, unless the watch does not have it.
    pub domain: Option<Arc<Domain>>,
    /// All templates with the UID in their label, in any namespace. They are sorted, so that a decision does not
    /// depend on the order of events.
    pub templates: Vec<Arc<ObservedTemplate>>,
    /// Its channels, if every ComputeDomain has its own.
    pub channels: Option<ObservedChannels>,
}

/// The effect of a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// None: the known object is as new.
    Nothing,
    /// The object is new or newer.
    Newer {
        /// Whether a second controller wrote it: the Go driver's, or its driver-managed mode.
        by_second_controller: bool,
    },
}

impl Index {
    /// An empty index. `channels`: the channels for `ComputeDomains`, if each gets its own.
    pub fn new(channels: Option<RangeInclusive<u32>>) -> Self {
        Self {
            numbers: Numbers::new(channels),
            ..Self::default()
        }
    }

    /// Forgets everything, because the watches begin again.
    pub fn clear(&mut self) {
        *self = Self {
            numbers: Numbers::new(self.numbers.channels()),
            ..Self::default()
        };
    }

    // === ComputeDomains ===

    /// The watch begins to list all `ComputeDomains`.
    pub fn begin_domains(&mut self) {
        self.domains.begin();
    }

    /// The watch has listed all `ComputeDomains`. Removes the others and returns their keys.
    pub fn finish_domains(&mut self) -> Vec<Key> {
        let gone = self.domains.finish();
        for domain in &gone {
            self.numbers.domain_changed(Some(domain), None);
        }
        gone.iter().map(|domain| key_of(domain)).collect()
    }

    /// The watch has delivered a ComputeDomain.
    pub fn apply_domain(&mut self, domain: Domain) -> Change {
        let uid = domain.uid().as_str();
        let before = self.domains.get(uid);
        let wrote_before = before.and_then(|before| before.last_write_of_go);
        let by_second_controller = self.domains.is_listed_once()
            && domain.last_write_of_go.is_some()
            && domain.last_write_of_go != wrote_before;
        let before = before.cloned();
        let (uid, version): (Box<str>, _) = (uid.into(), domain.version);
        let is_newer = self.domains.apply(uid.clone(), version, Arc::new(domain));
        let now = self.domains.get(&uid);
        self.numbers.domain_changed(before.as_ref(), now);
        if is_newer {
            Change::Newer {
                by_second_controller,
            }
        } else {
            Change::Nothing
        }
    }

    /// Stores a ComputeDomain from the response to our request.
    pub fn learn_domain(&mut self, domain: Domain) {
        let (uid, version): (Box<str>, _) = (domain.uid().as_str().into(), domain.version);
        let before = self.domains.get(&uid).cloned();
        self.domains.learn(uid.clone(), version, Arc::new(domain));
        let now = self.domains.get(&uid);
        self.numbers.domain_changed(before.as_ref(), now);
    }

    /// The ComputeDomain is deleted.
    pub fn remove_domain(&mut self, uid: &str) {
        let gone = self.domains.remove(uid);
        self.numbers.domain_changed(gone.as_ref(), None);
    }

    /// The ComputeDomain of this UID, unless the watch does not have it.
    pub fn domain(&self, key: &str) -> Option<Arc<Domain>> {
        self.domains.get(key).cloned()
    }

    /// The `ComputeDomains` with the condition `NodesWithoutClique`.
    pub fn with_nodes_without_clique(&self) -> Vec<Key> {
        let domains = self.domains.values();
        let reporting = domains.filter(|domain| domain.reports_nodes_without_clique());
        reporting.map(|domain| key_of(domain)).collect()
    }

    /// The `ComputeDomains` that have claims and whose status has nodes.
    pub fn with_nodes(&self) -> Vec<Key> {
        let domains = self.domains.values();
        let reporting = domains.filter(|domain| domain.reports_nodes());
        let with_claims = reporting.filter(|domain| self.claims(domain).next().is_some());
        with_claims.map(|domain| key_of(domain)).collect()
    }

    /// The number of `ComputeDomains` that report this state.
    pub fn count(&self, state: ComputeDomainState) -> usize {
        let domains = self.domains.values();
        domains
            .filter(|domain| domain.reported_state() == Some(state))
            .count()
    }

    /// Any ComputeDomain that is not being deleted, so that its status can be written.
    pub fn any_live_domain(&self) -> Option<Arc<Domain>> {
        let live = |domain: &&Arc<Domain>| !domain.is_being_deleted();
        self.domains.values().find(live).cloned()
    }

    // === templates ===

    /// The watch begins to list all templates.
    pub fn begin_templates(&mut self) {
        self.templates.begin();
    }

    /// The watch has listed all templates. Removes and returns the others, which are deleted or have lost their
    /// label.
    pub fn finish_templates(&mut self) -> Vec<Arc<ObservedTemplate>> {
        let gone = self.templates.finish();
        for template in &gone {
            self.unlink(template);
        }
        gone
    }

    /// The watch has delivered a template.
    pub fn apply_template(&mut self, template: ObservedTemplate) -> Change {
        let uid = template.reference().uid.clone();
        let before = self.templates.get(&uid).cloned();
        // Only the Go driver's driver-managed mode creates them.
        let by_second_controller = self.templates.is_listed_once()
            && before.is_none()
            && template.target() == Target::Daemon;
        let (version, template) = (template.version, Arc::new(template));
        if !self.templates.apply(uid, version, template.clone()) {
            return Change::Nothing;
        }
        self.relink(before.as_ref(), &template);
        Change::Newer {
            by_second_controller,
        }
    }

    /// The key of a template, by the template's own UID.
    pub fn key_of_template(&self, uid: &str) -> Option<Key> {
        Some(self.templates.get(uid)?.domain_uid().into())
    }

    /// Stores a template from the response to our request. A template without the label is not kept: the watch
    /// would never deliver its deletion.
    pub fn learn_template(&mut self, template: ObservedTemplate) {
        let uid = template.reference().uid.clone();
        let before = self.templates.get(&uid).cloned();
        let (version, template) = (template.version, Arc::new(template));
        if !self.templates.learn(uid.clone(), version, template.clone()) {
            return;
        }
        self.relink(before.as_ref(), &template);
        if template.domain_uid().is_empty() {
            self.remove_template(&uid);
        }
    }

    /// The template is deleted or has lost its label. Returns the known template.
    pub fn remove_template(&mut self, uid: &str) -> Option<Arc<ObservedTemplate>> {
        let template = self.templates.remove(uid)?;
        self.unlink(&template);
        Some(template)
    }

    // === claims ===

    /// The watch begins to list all claims.
    pub fn begin_claims(&mut self) {
        self.listed_claims = Some(HashMap::new());
    }

    /// The watch has listed all claims. Removes the others.
    pub fn finish_claims(&mut self) {
        if let Some(listed) = self.listed_claims.take() {
            self.claims = listed;
        }
    }

    /// The watch has delivered a claim with this UID in its label.
    pub fn apply_claim(&mut self, key: Key, claim: ClaimName) {
        let claims = self.listed_claims.as_mut().unwrap_or(&mut self.claims);
        claims.entry(key).or_default().insert(claim);
    }

    /// The claim is deleted.
    pub fn remove_claim(&mut self, key: &str, claim: &ClaimName) {
        if let Some(claims) = self.claims.get_mut(key) {
            claims.remove(claim);
            if claims.is_empty() {
                self.claims.remove(key);
            }
        }
    }

    /// The claims of a ComputeDomain, in its own namespace.
    pub fn claims(&self, domain: &Domain) -> impl Iterator<Item = &str> {
        let claims = self.claims.get(domain.uid().as_str());
        let own = move |(namespace, _): &&ClaimName| **namespace == *domain.namespace();
        claims
            .into_iter()
            .flatten()
            .filter(own)
            .map(|(_, name)| &**name)
    }

    // === all of it ===

    /// Everything known of this UID at this time.
    pub fn observe(&self, key: &str, now: Timestamp) -> Observed {
        let domain = self.domain(key);
        let claims = self.claims.get(key);
        let has_claims = |lease: &ChannelLease| {
            // Claims in other namespaces are not its claims: any user can set a label.
            let home = lease.home();
            let mut claims = claims.into_iter().flatten();
            claims.any(|(namespace, _)| home.is_none_or(|home| home.namespace == *namespace))
        };
        let channels = self.numbers.observe(key, domain.as_ref(), has_claims, now);
        Observed {
            templates: self.templates_of(key),
            domain,
            channels,
        }
    }

    /// All templates with this UID in their label.
    pub fn templates_of(&self, key: &str) -> Vec<Arc<ObservedTemplate>> {
        let uids = self.template_uids.get(key).into_iter().flatten();
        let templates = uids.filter_map(|uid| self.templates.get(uid));
        let mut templates: Vec<_> = templates.cloned().collect();
        templates.sort_by(|one, other| one.reference().cmp(other.reference()));
        templates
    }

    /// All UIDs with a known ComputeDomain, template or Lease of a channel.
    pub fn keys(&self) -> HashSet<Key> {
        let domains = self.domains.values().map(|domain| key_of(domain));
        let others = self.template_uids.keys().chain(self.numbers.holders());
        domains.chain(others.cloned()).collect()
    }

    /// The templates of the Go driver's driver-managed mode, in any namespace.
    pub fn daemon_templates(&self) -> impl Iterator<Item = &Arc<ObservedTemplate>> {
        let templates = self.templates.values();
        templates.filter(|template| template.target() == Target::Daemon)
    }

    /// Enters the template under the UID in its label, which may have changed.
    fn relink(&mut self, before: Option<&Arc<ObservedTemplate>>, template: &ObservedTemplate) {
        if let Some(before) = before {
            if before.domain_uid() == template.domain_uid() {
                return;
            }
            self.unlink(before);
        }
        let uids = self.template_uids.entry(template.domain_uid().into());
        uids.or_default().push(template.reference().uid.clone());
    }

    fn unlink(&mut self, template: &ObservedTemplate) {
        let key = template.domain_uid();
        if let Some(uids) = self.template_uids.get_mut(key) {
            uids.retain(|uid| *uid != template.reference().uid);
            if uids.is_empty() {
                self.template_uids.remove(key);
            }
        }
    }
}

fn key_of(domain: &Domain) -> Key {
    domain.uid().as_str().into()
}

#[cfg(test)]
mod tests;
