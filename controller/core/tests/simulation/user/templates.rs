//! Users' actions on templates.

use std::collections::BTreeMap;

use compute_domain_api::names::{
    DOMAIN_LABEL, FINALIZER, TARGET_DAEMON, TARGET_LABEL, TARGET_WORKLOAD,
};
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{INVALID_NAME, TEMPLATE_NAMES, UserActions};
use crate::objects::{
    DRIVER_NAMESPACE, NAMESPACES, OF_OTHERS, domain_uid, has_our_finalizer, is_as_created,
    is_being_deleted, is_daemon, is_made_for_label, mk_foreign_template, mk_go_template, place,
    remove_finalizer, uid, wanted_name,
};

impl UserActions<'_> {
    // === templates of domains ===

    pub(super) fn delete_template(&mut self) -> Option<()> {
        let at = place(&self.any_of_domains()?.metadata);
        self.server.delete_template(&at).ok()
    }

    pub(super) fn force_template(&mut self) -> Option<()> {
        let template = self.any_of_domains()?;
        self.server.templates.remove(&place(&template.metadata));
        Some(())
    }

    pub(super) fn strip_label(&mut self) -> Option<()> {
        self.strip(DOMAIN_LABEL)
    }

    pub(super) fn strip_target(&mut self) -> Option<()> {
        self.strip(TARGET_LABEL)
    }

    /// Removes a label from the template of a live domain, which finds it by its name.
    fn strip(&mut self, key: &str) -> Option<()> {
        let (domain, mut template) = self.any_own()?;
        let ours = is_made_for_label(&template) && has_our_finalizer(&domain.metadata);
        if !ours || (key == DOMAIN_LABEL && !self.tamper_with(&domain)) {
            return None;
        }
        self.user.backup.push(template.clone());
        template.metadata.labels.as_mut()?.remove(key)?;
        self.server.put_template(template);
        Some(())
    }

    /// Replaces a template with an altered one, because a spec cannot be changed.
    pub(super) fn alter_template(&mut self) -> Option<()> {
        let (_, template) = self.any_own()?;
        // A template without all labels would count as foreign.
        if !is_as_created(&template) {
            return None;
        }
        let at = place(&template.metadata);
        let altered = mk_foreign_template(&at, template.metadata.labels.as_ref()?);
        self.server.templates.remove(&at);
        self.create(altered).map(drop)
    }

    /// Copies a template, like `kubectl get -o yaml | sed | kubectl create`.
    pub(super) fn copy_template(&mut self) -> Option<()> {
        let template = self.any_of_domains()?;
        // A domain that the watch has not delivered yet is looked up only in the copy's namespace.
        let owner = domain_uid(&template.metadata).and_then(|uid| self.server.domains.by_uid(uid));
        if owner.is_some_and(|owner| !has_our_finalizer(&owner.metadata)) {
            return None;
        }
        self.user.backup.push(template.clone());
        self.create_copy(template)
    }

    pub(super) fn restore_template(&mut self) -> Option<()> {
        let template = self.random.choice(&self.user.backup)?.clone();
        self.create_copy(template)
    }

    pub(super) fn hold_template(&mut self) -> Option<()> {
        let mut template = self.any_of_domains()?;
        if is_being_deleted(&template.metadata) {
            return None;
        }
        let finalizers = template.metadata.finalizers.get_or_insert_default();
        let at = self.random.usize(..=finalizers.len());
        finalizers.insert(at, OF_OTHERS.to_owned());
        self.server.put_template(template);
        Some(())
    }

    /// The Go driver's controller still runs, and is sometimes faster than our watch.
    pub(super) fn run_go(&mut self) -> Option<()> {
        let domain = self.any_domain()?;
        if is_being_deleted(&domain.metadata) || wanted_name(&domain) == INVALID_NAME {
            return None;
        }
        self.create(mk_go_template(&domain)).map(drop)
    }

    // === templates of others ===

    /// Creates a foreign template with a name that a domain may want, or with a label that any user can set.
    pub(super) fn create_foreign(&mut self) -> Option<()> {
        let at = (self.any(&NAMESPACES), self.any(&TEMPLATE_NAMES));
        let labels = match self.any_domain() {
            Some(domain) if self.random.bool() => {
                let label = (DOMAIN_LABEL.to_owned(), uid(&domain.metadata).to_owned());
                let target = (TARGET_LABEL.to_owned(), TARGET_WORKLOAD.to_owned());
                // In the domain's namespace, both labels together identify its template.
                let elsewhere = place(&domain.metadata).0 != at.0;
                [label]
                    .into_iter()
                    .chain(elsewhere.then_some(target))
                    .collect()
            }
            _ => BTreeMap::new(),
        };
        let created = self.create(mk_foreign_template(&at, &labels))?;
        self.server
            .foreign
            .insert(uid(&created.metadata).to_owned());
        Some(())
    }

    pub(super) fn delete_foreign(&mut self) -> Option<()> {
        let foreign = self.any_template(|server, it| server.foreign.contains(uid(it)))?;
        let at = place(&foreign.metadata);
        self.server.templates.remove(&at);
        Some(())
    }

    /// Creates a daemon template of the driver-managed mode, or removes it by force.
    pub(super) fn toggle_daemon(&mut self) -> Option<()> {
        if let Some(template) = self.any_template(|_, it| is_daemon(it)) {
            self.server.templates.remove(&place(&template.metadata));
            return Some(());
        }
        let owner = uid(&self.any_domain()?.metadata).to_owned();
        let at = (
            DRIVER_NAMESPACE.to_owned(),
            format!("computedomain-daemon-{owner}"),
        );
        let target = (TARGET_LABEL.to_owned(), TARGET_DAEMON.to_owned());
        let labels = BTreeMap::from([(DOMAIN_LABEL.to_owned(), owner), target]);
        let mut template = mk_foreign_template(&at, &labels);
        template.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
        self.create(template).map(drop)
    }

    // === creation ===

    fn create(&mut self, template: ResourceClaimTemplate) -> Option<ResourceClaimTemplate> {
        self.server.create_template(template).ok()
    }

    /// Creates a copy, with or without the annotation of its origin.
    fn create_copy(&mut self, mut template: ResourceClaimTemplate) -> Option<()> {
        let annotations = template.metadata.annotations.take();
        template.metadata = ObjectMeta {
            annotations: annotations.filter(|_| self.random.bool()),
            namespace: Some(self.any(&NAMESPACES)),
            name: Some(self.any(&TEMPLATE_NAMES)),
            labels: template.metadata.labels.take(),
            finalizers: template.metadata.finalizers.take(),
            ..ObjectMeta::default()
        };
        remove_finalizer(&mut template.metadata, OF_OTHERS);
        self.create(template).map(drop)
    }
}
