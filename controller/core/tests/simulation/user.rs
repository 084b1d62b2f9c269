//! What users do, at any time and in any order. Some of it is careless, some of it is an attack.

use std::collections::{BTreeMap, BTreeSet};

use compute_domain_api::crd::ComputeDomain;
use compute_domain_api::names::{
    DOMAIN_LABEL, FINALIZER, TARGET_DAEMON, TARGET_LABEL, TARGET_WORKLOAD,
};
use fastrand::Rng;
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::objects::{
    DRIVER_NAMESPACE, NAMESPACES, OF_OTHERS, domain_uid, has_finalizer, has_our_finalizer,
    is_as_created, is_being_deleted, is_daemon, is_made_for_label, mk_domain, mk_foreign_template,
    mk_go_template, place, remove_finalizer, uid, wanted_name, wanted_place,
};
use crate::server::Server;

/// Few, so that names clash.
const DOMAIN_NAMES: [&str; 2] = ["train-a", "train-b"];
const TEMPLATE_NAMES: [&str; 2] = ["channel-a", "channel-b"];
const INVALID_NAME: &str = "Invalid_Name";

#[derive(Default)]
pub(crate) struct User {
    /// Templates as they were at some time.
    backup: Vec<ResourceClaimTemplate>,
    /// UIDs of the domains without our finalizer or whose template is without label: who removes
    /// both has to clean up himself.
    tampered: BTreeSet<String>,
    /// What has been done, for the message of a failure.
    pub(crate) log: Vec<&'static str>,
}

type Act = fn(&mut User, &mut Server, &mut Rng) -> Option<()>;

/// What can be done; the first ones are usual, and more frequent.
const ACTS: [(&str, Act); 21] = [
    ("create a domain", User::create_domain),
    ("create a domain", User::create_domain),
    ("create a domain", User::create_domain),
    ("create a domain", User::create_domain),
    ("delete a domain", User::delete_domain),
    ("delete a domain", User::delete_domain),
    ("delete a domain", User::delete_domain),
    ("delete a template", User::delete_template),
    ("delete a template by force", User::force_template),
    ("delete a namespace", User::delete_namespace),
    ("strip a domain's finalizer", User::strip_finalizer),
    ("strip a template's label", User::strip_label),
    ("strip a template's target", User::strip_target),
    ("alter a template", User::alter_template),
    ("copy a template", User::copy_template),
    ("restore a template", User::restore_template),
    ("hold a template", User::hold_template),
    ("create a foreign template", User::create_foreign),
    ("delete a foreign template", User::delete_foreign),
    ("create or delete a daemon's", User::toggle_daemon),
    ("run the Go driver's controller", User::run_go),
];

impl User {
    pub(crate) fn act(&mut self, server: &mut Server, random: &mut Rng) {
        let (name, act) = ACTS[random.usize(..ACTS.len())];
        if act(self, server, random).is_some() {
            self.log.push(name);
        }
        server.finish_namespaces();
    }

    // === domains ===

    fn create_domain(&mut self, server: &mut Server, random: &mut Rng) -> Option<()> {
        let at = (any(&NAMESPACES, random)?, any(&DOMAIN_NAMES, random)?);
        let mode = any(&["Single", "All"], random)?;
        let template = match random.u8(..16) {
            0 => INVALID_NAME.to_owned(),
            _ => any(&TEMPLATE_NAMES, random)?,
        };
        let domain = mk_domain(&at, &template, &mode);
        server.create_domain(domain).ok()
    }

    fn delete_domain(&mut self, server: &mut Server, random: &mut Rng) -> Option<()> {
        let at = place(&any_domain(server, random)?.metadata);
        let version = server.next_version();
        server.domains.delete(&at, version).ok().map(drop)
    }

    fn strip_finalizer(&mut self, server: &mut Server, random: &mut Rng) -> Option<()> {
        let mut domain = any_domain(server, random)?;
        if !has_our_finalizer(&domain.metadata) || !self.tamper_with(&domain) {
            return None;
        }
        remove_finalizer(&mut domain.metadata, FINALIZER);
        let version = server.next_version();
        server.domains.put(domain, version);
        Some(())
    }

    fn delete_namespace(&mut self, server: &mut Server, random: &mut Rng) -> Option<()> {
        let namespace = any(&NAMESPACES, random)?;
        server.terminating.insert(namespace.clone());
        let here = |metadata: &ObjectMeta| Some(place(metadata)).filter(|(it, _)| *it == namespace);
        let domains: Vec<_> = server
            .domains
            .values()
            .filter_map(|it| here(&it.metadata))
            .collect();
        let templates: Vec<_> = server
            .templates
            .values()
            .filter_map(|it| here(&it.metadata))
            .collect();
        for at in domains {
            let version = server.next_version();
            server.domains.delete(&at, version).ok();
        }
        for at in templates {
            let version = server.next_version();
            server.templates.delete(&at, version).ok();
        }
        Some(())
    }

    // === templates of domains ===

    fn delete_template(&mut self, server: &mut Server, random: &mut Rng) -> Option<()> {
        let at = place(&any_of_domains(server, random)?.metadata);
        let version = server.next_version();
        server.templates.delete(&at, version).ok().map(drop)
    }

    fn force_template(&mut self, server: &mut Server, random: &mut Rng) -> Option<()> {
        let template = any_of_domains(server, random)?;
        server.templates.remove(&place(&template.metadata));
        Some(())
    }

    fn strip_label(&mut self, server: &mut Server, random: &mut Rng) -> Option<()> {
        self.strip(server, random, DOMAIN_LABEL)
    }

    fn strip_target(&mut self, server: &mut Server, random: &mut Rng) -> Option<()> {
        self.strip(server, random, TARGET_LABEL)
    }

    /// Of the template of a live domain, which finds it by its name.
    fn strip(&mut self, server: &mut Server, random: &mut Rng, key: &str) -> Option<()> {
        let (domain, mut template) = any_own(server, random)?;
        let ours = is_made_for_label(&template) && has_our_finalizer(&domain.metadata);
        if !ours || (key == DOMAIN_LABEL && !self.tamper_with(&domain)) {
            return None;
        }
        self.backup.push(template.clone());
        template.metadata.labels.as_mut()?.remove(key)?;
        let version = server.next_version();
        server.templates.put(template, version);
        Some(())
    }

    /// Whether nobody has tampered with this domain before.
    fn tamper_with(&mut self, domain: &ComputeDomain) -> bool {
        self.tampered.insert(uid(&domain.metadata).to_owned())
    }

    /// A spec cannot be changed, but the object can be replaced.
    fn alter_template(&mut self, server: &mut Server, random: &mut Rng) -> Option<()> {
        let (_, template) = any_own(server, random)?;
        // Without all labels, it would be somebody else's.
        if !is_as_created(&template) {
            return None;
        }
        let at = place(&template.metadata);
        let altered = mk_foreign_template(&at, template.metadata.labels.clone()?);
        server.templates.remove(&at);
        server.create_template(altered).ok().map(drop)
    }

    /// As `kubectl get -o yaml | sed | kubectl create` does it.
    fn copy_template(&mut self, server: &mut Server, random: &mut Rng) -> Option<()> {
        let template = any_of_domains(server, random)?;
        // One that the watch has not told of yet is looked up only where the copy is.
        let owner = domain_uid(&template.metadata).and_then(|uid| server.domains.by_uid(uid));
        if owner.is_some_and(|owner| !has_our_finalizer(&owner.metadata)) {
            return None;
        }
        self.backup.push(template.clone());
        create_copy(server, random, template)
    }

    fn restore_template(&mut self, server: &mut Server, random: &mut Rng) -> Option<()> {
        let template = random.choice(&self.backup)?.clone();
        create_copy(server, random, template)
    }

    fn hold_template(&mut self, server: &mut Server, random: &mut Rng) -> Option<()> {
        let mut template = any_of_domains(server, random)?;
        if is_being_deleted(&template.metadata) {
            return None;
        }
        let finalizers = template.metadata.finalizers.get_or_insert_default();
        let at = random.usize(..=finalizers.len());
        finalizers.insert(at, OF_OTHERS.to_owned());
        let version = server.next_version();
        server.templates.put(template, version);
        Some(())
    }

    /// Everybody lets go of everything.
    pub(crate) fn release_all(&mut self, server: &mut Server) {
        let held = server.templates.values();
        let held: Vec<_> = held
            .filter(|it| has_finalizer(&it.metadata, OF_OTHERS))
            .cloned()
            .collect();
        for mut template in held {
            remove_finalizer(&mut template.metadata, OF_OTHERS);
            let version = server.next_version();
            server.templates.put(template, version);
        }
        server.finish_namespaces();
    }

    pub(crate) fn delete_all_domains(&mut self, server: &mut Server) {
        let all: Vec<_> = server
            .domains
            .values()
            .map(|it| place(&it.metadata))
            .collect();
        for at in all {
            let version = server.next_version();
            server.domains.delete(&at, version).unwrap();
        }
    }

    /// The Go driver's controller is still there, and is sometimes quicker than our watch.
    fn run_go(&mut self, server: &mut Server, random: &mut Rng) -> Option<()> {
        let domain = any_domain(server, random)?;
        if is_being_deleted(&domain.metadata) || wanted_name(&domain) == INVALID_NAME {
            return None;
        }
        server
            .create_template(mk_go_template(&domain))
            .ok()
            .map(drop)
    }

    // === templates of others ===

    /// With the name that a domain may want, or with a label that anybody can set.
    fn create_foreign(&mut self, server: &mut Server, random: &mut Rng) -> Option<()> {
        let at = (any(&NAMESPACES, random)?, any(&TEMPLATE_NAMES, random)?);
        let labels = match any_domain(server, random) {
            Some(domain) if random.bool() => {
                let label = (DOMAIN_LABEL.to_owned(), uid(&domain.metadata).to_owned());
                let target = (TARGET_LABEL.to_owned(), TARGET_WORKLOAD.to_owned());
                // In its own namespace, both labels together are how it is known.
                let elsewhere = place(&domain.metadata).0 != at.0;
                [label]
                    .into_iter()
                    .chain(elsewhere.then_some(target))
                    .collect()
            }
            _ => BTreeMap::new(),
        };
        let created = server
            .create_template(mk_foreign_template(&at, labels))
            .ok()?;
        server.foreign.insert(uid(&created.metadata).to_owned());
        Some(())
    }

    fn delete_foreign(&mut self, server: &mut Server, random: &mut Rng) -> Option<()> {
        let is_foreign = |it: &ResourceClaimTemplate| server.foreign.contains(uid(&it.metadata));
        let at = place(&any_template(server, random, is_foreign)?.metadata);
        server.templates.remove(&at);
        Some(())
    }

    /// Whoever removes what the driver-managed mode left does it by force.
    fn toggle_daemon(&mut self, server: &mut Server, random: &mut Rng) -> Option<()> {
        if let Some(template) = any_template(server, random, |it| is_daemon(&it.metadata)) {
            server.templates.remove(&place(&template.metadata));
            return Some(());
        }
        let owner = uid(&any_domain(server, random)?.metadata).to_owned();
        let at = (
            DRIVER_NAMESPACE.to_owned(),
            format!("computedomain-daemon-{owner}"),
        );
        let target = (TARGET_LABEL.to_owned(), TARGET_DAEMON.to_owned());
        let labels = BTreeMap::from([(DOMAIN_LABEL.to_owned(), owner), target]);
        let mut template = mk_foreign_template(&at, labels);
        template.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
        server.create_template(template).ok().map(drop)
    }
}

fn create_copy(
    server: &mut Server,
    random: &mut Rng,
    mut template: ResourceClaimTemplate,
) -> Option<()> {
    let metadata = ObjectMeta {
        namespace: any(&NAMESPACES, random),
        name: any(&TEMPLATE_NAMES, random),
        labels: template.metadata.labels.take(),
        finalizers: template.metadata.finalizers.take(),
        ..ObjectMeta::default()
    };
    template.metadata = metadata;
    remove_finalizer(&mut template.metadata, OF_OTHERS);
    server.create_template(template).ok().map(drop)
}

fn any(of: &[&str], random: &mut Rng) -> Option<String> {
    random.choice(of).map(ToString::to_string)
}

fn any_domain(server: &Server, random: &mut Rng) -> Option<ComputeDomain> {
    let all: Vec<_> = server.domains.values().collect();
    random.choice(all).cloned()
}

fn any_template(
    server: &Server,
    random: &mut Rng,
    is_wanted: impl Fn(&ResourceClaimTemplate) -> bool,
) -> Option<ResourceClaimTemplate> {
    let all: Vec<_> = server
        .templates
        .values()
        .filter(|it| is_wanted(it))
        .collect();
    random.choice(all).cloned()
}

/// A template with the label of a domain, also of one that is gone.
fn any_of_domains(server: &Server, random: &mut Rng) -> Option<ResourceClaimTemplate> {
    let is_of_domain = |it: &ResourceClaimTemplate| {
        let metadata = &it.metadata;
        let foreign = server.foreign.contains(uid(metadata)) || is_daemon(metadata);
        domain_uid(metadata).is_some() && !foreign
    };
    any_template(server, random, is_of_domain)
}

/// A domain that is not being deleted, and its own template.
fn any_own(server: &Server, random: &mut Rng) -> Option<(ComputeDomain, ResourceClaimTemplate)> {
    let template = any_of_domains(server, random)?;
    let domain = server.domains.by_uid(domain_uid(&template.metadata)?)?;
    let own = wanted_place(domain) == place(&template.metadata);
    let live = !is_being_deleted(&domain.metadata) && !is_being_deleted(&template.metadata);
    (own && live).then(|| (domain.clone(), template))
}
