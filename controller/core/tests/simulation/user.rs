//! The actions of users, at any time and in any order. Some are careless, some are attacks.

mod channels;
mod templates;

use std::collections::BTreeSet;

use compute_domain_api::crd::ComputeDomain;
use compute_domain_api::names::{CHANNEL_LABEL, FINALIZER};
use fastrand::Rng;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::objects::{
    NAMESPACES, OF_OTHERS, Place, domain_uid, has_finalizer, has_our_finalizer, is_being_deleted,
    is_daemon, label, mk_domain, place, remove_finalizer, uid, wanted_place,
};
use crate::server::Server;

/// Few, so that names clash.
const DOMAIN_NAMES: [&str; 2] = ["train-a", "train-b"];
const TEMPLATE_NAMES: [&str; 2] = ["channel-a", "channel-b"];
const INVALID_NAME: &str = "Invalid_Name";

/// The history of the users' actions.
#[derive(Default)]
pub(crate) struct User {
    /// Copies of templates from some time.
    backup: Vec<ResourceClaimTemplate>,
    /// UIDs of domains from which a user removed our finalizer, or from whose template the label. A user who removes
    /// both has to clean up.
    tampered: BTreeSet<String>,
    /// For the message of a failure.
    pub(crate) log: Vec<&'static str>,
}

/// One act of a user.
struct UserActions<'a> {
    user: &'a mut User,
    server: &'a mut Server,
    random: &'a mut Rng,
}

// === impl User ===

impl User {
    pub(crate) fn act(&mut self, server: &mut Server, random: &mut Rng) {
        let mut turn = UserActions {
            user: self,
            server,
            random,
        };
        if let (name, Some(())) = turn.act() {
            self.log.push(name);
        }
        server.finish_namespaces();
    }

    /// Removes all other finalizers.
    pub(crate) fn release_all(&mut self, server: &mut Server) {
        self.log.push("release everything");
        let all: Vec<_> = server.templates.values().cloned().collect();
        for mut template in all {
            if has_finalizer(&template.metadata, OF_OTHERS) {
                remove_finalizer(&mut template.metadata, OF_OTHERS);
                server.put_template(template);
            }
        }
        for at in server.claims.places() {
            server.claims.remove(&at);
        }
        for at in server.leases.places() {
            let is_ours = |it: &Lease| label(&it.metadata, CHANNEL_LABEL).is_some();
            if !server.leases.get(&at).is_some_and(is_ours) {
                server.leases.remove(&at);
            }
        }
        server.finish_namespaces();
    }

    pub(crate) fn delete_all_domains(&mut self, server: &mut Server) {
        self.log.push("delete all domains");
        for at in server.domains.places() {
            server.delete_domain(&at).unwrap();
        }
    }
}

// === impl Turn ===

impl UserActions<'_> {
    /// Does a random action; usual ones are frequent. Returns `None` if it is not possible now.
    fn act(&mut self) -> (&'static str, Option<()>) {
        match self.random.u8(..30) {
            0..4 => ("create a domain", self.create_domain()),
            4..7 => ("delete a domain", self.delete_domain()),
            7 => ("delete a template", self.delete_template()),
            8 => ("delete a template by force", self.force_template()),
            9 => ("delete a namespace", self.delete_namespace()),
            10 => ("strip a domain's finalizer", self.strip_finalizer()),
            11 => ("strip a template's label", self.strip_label()),
            12 => ("strip a template's target", self.strip_target()),
            13 => ("alter a template", self.alter_template()),
            14 => ("copy a template", self.copy_template()),
            15 => ("restore a template", self.restore_template()),
            16 => ("hold a template", self.hold_template()),
            17 => ("create a foreign template", self.create_foreign()),
            18 => ("delete a foreign template", self.delete_foreign()),
            19 => ("create or delete a daemon's", self.toggle_daemon()),
            20 => ("replace a spec", self.replace_spec()),
            21..24 => ("create a claim", self.create_claim()),
            24..26 => ("delete a claim", self.delete_claim()),
            26 => ("forge a channel", self.forge_channel()),
            27 => ("delete a lease", self.delete_lease()),
            28 => ("edit a lease", self.edit_lease()),
            _ => ("run the Go driver's controller", self.run_go()),
        }
    }

    fn create_domain(&mut self) -> Option<()> {
        let at = (self.any(&NAMESPACES), self.any(&DOMAIN_NAMES));
        let mode = self.any(&["Single", "All"]);
        let template = match self.random.u8(..16) {
            0 => INVALID_NAME.to_owned(),
            _ => self.any(&TEMPLATE_NAMES),
        };
        let domain = mk_domain(&at, &template, &mode);
        self.server.create_domain(domain).ok()
    }

    fn delete_domain(&mut self) -> Option<()> {
        let at = place(&self.any_domain()?.metadata);
        self.server.delete_domain(&at).ok()
    }

    fn strip_finalizer(&mut self) -> Option<()> {
        let mut domain = self.any_domain()?;
        if !has_our_finalizer(&domain.metadata) || !self.tamper_with(&domain) {
            return None;
        }
        remove_finalizer(&mut domain.metadata, FINALIZER);
        self.server.put_domain(domain);
        Some(())
    }

    /// Replaces the spec: it cannot be changed, but removed and added again. The owner of a template without label
    /// could not be found afterwards.
    fn replace_spec(&mut self) -> Option<()> {
        let mut domain = self.any_domain()?;
        if self.user.tampered.contains(uid(&domain.metadata)) {
            return None;
        }
        let owner = uid(&domain.metadata).to_owned();
        let formerly_wanted = self.server.formerly_wanted.entry(owner).or_default();
        formerly_wanted.insert(wanted_place(&domain));
        let name = self.any(&TEMPLATE_NAMES);
        let spec = domain.spec.spec.as_mut()?;
        spec.channel.resource_claim_template.name = name;
        domain.metadata.generation = domain.metadata.generation.map(|it| it + 1);
        self.server.put_domain(domain);
        Some(())
    }

    /// Deletes a namespace that is not empty.
    fn delete_namespace(&mut self) -> Option<()> {
        let namespace = self.any(&NAMESPACES);
        let is_here = |at: &Place| at.0 == namespace;
        let domains = self.server.domains.places().into_iter().filter(is_here);
        let templates = self.server.templates.places().into_iter().filter(is_here);
        let (domains, templates): (Vec<_>, Vec<_>) = (domains.collect(), templates.collect());
        domains.first().or_else(|| templates.first())?;
        for at in domains {
            self.server.delete_domain(&at).unwrap();
        }
        for at in templates {
            self.server.delete_template(&at).unwrap();
        }
        self.server.terminating.insert(namespace);
        Some(())
    }

    /// Marks the domain as tampered with. Returns whether it was not marked before.
    fn tamper_with(&mut self, domain: &ComputeDomain) -> bool {
        self.user.tampered.insert(uid(&domain.metadata).to_owned())
    }

    // === choices ===

    fn any(&mut self, of: &[&str]) -> String {
        of[self.random.usize(..of.len())].to_owned()
    }

    fn any_domain(&mut self) -> Option<ComputeDomain> {
        let all: Vec<_> = self.server.domains.values().collect();
        self.random.choice(all).cloned()
    }

    fn any_template(
        &mut self,
        is_wanted: impl Fn(&Server, &ObjectMeta) -> bool,
    ) -> Option<ResourceClaimTemplate> {
        let all = self.server.templates.values();
        let wanted = all.filter(|it| is_wanted(self.server, &it.metadata));
        let wanted: Vec<_> = wanted.collect();
        self.random.choice(wanted).cloned()
    }

    /// A template with the label of a domain, which may be deleted.
    fn any_of_domains(&mut self) -> Option<ResourceClaimTemplate> {
        self.any_template(|server, metadata| {
            let foreign = server.foreign.contains(uid(metadata)) || is_daemon(metadata);
            domain_uid(metadata).is_some() && !foreign
        })
    }

    /// A domain that is not being deleted, and its own template.
    fn any_own(&mut self) -> Option<(ComputeDomain, ResourceClaimTemplate)> {
        let template = self.any_of_domains()?;
        let domain = self
            .server
            .domains
            .by_uid(domain_uid(&template.metadata)?)?;
        let own = wanted_place(domain) == place(&template.metadata);
        let live = !is_being_deleted(&domain.metadata) && !is_being_deleted(&template.metadata);
        (own && live).then(|| (domain.clone(), template))
    }
}
