//! Scenarios of a ComputeDomain until its deletion. Together they cover every call of the
//! controller.

use compute_domain_api::names::{DOMAIN_LABEL, NO_CLIQUE_TAINT};
use serde_json::json;

use crate::fake_api::{Call, FakeApi, Resource};
use crate::testing::Controller;
use crate::testing::objects::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scenario {
    /// Created, used and deleted.
    Plain,
    /// The same, with several replicas.
    Elected,
    /// The name of its template is taken at first.
    NameTaken,
    /// Another client has replaced its template.
    TemplateAltered,
    /// Its template has lost its label when the domain is deleted.
    LabelLost,
    /// The label of its template is changed while it is ready.
    LabelChanged,
    /// The CRD is older at first.
    OlderCrd,
    /// Its finalizer is removed manually while no controller runs, so that its template is left.
    FinalizerStripped,
    /// The same with a template of the Go driver's controller, which does not name its domain.
    FinalizerStrippedOfGo,
    /// Its claim waits, in a cluster with a tainted node without a clique.
    ClaimWaits,
    /// It shares a clique with another domain.
    CliqueShared,
}

impl Scenario {
    /// Plays the scenario of the domain `a`, from before the controller starts until nothing is left.
    pub(super) async fn play(self, api: &FakeApi) {
        self.begin(api);
        let mut controller = match self {
            Self::Elected => Controller::start_candidate(api, "me"),
            Self::ClaimWaits => Controller::start_with_taints(api),
            _ => Controller::start(api),
        };
        if self == Self::FinalizerStrippedOfGo {
            api.until("the orphan is gone", nothing_is_left).await;
        }
        let uid = uid(&api.create(mk_domain("a")));
        self.go_on(api).await;
        api.until("ready", |api| is_ready(api, "a")).await;
        self.change(api, &uid).await;
        api.create(mk_claim("a-claim", &uid));
        if self == Self::FinalizerStripped {
            controller.stop().await;
            strip_finalizers(api, Resource::Domains, "a");
            delete_domain(api, "a");
            controller = Controller::start(api);
        }
        delete_domain(api, "a");
        api.until("gone", nothing_is_left).await;
        controller.stop().await;
    }

    /// Creates the objects that exist before the controller starts.
    fn begin(self, api: &FakeApi) {
        match self {
            Self::NameTaken => drop(api.create(mk_foreign_template("a-channel"))),
            Self::OlderCrd => api.set_older_crd(true),
            Self::ClaimWaits => drop(api.create(mk_slice("node1", &[NO_CLIQUE_TAINT]))),
            Self::FinalizerStrippedOfGo => {
                api.create(mk_template_of_go("a-channel", "gone"));
            }
            _ => {}
        }
    }

    /// Continues until the domain is ready.
    async fn go_on(self, api: &FakeApi) {
        if self == Self::NameTaken {
            api.until("rejected", |api| reason(api, "a") == "TemplateNameTaken")
                .await;
            api.delete(Resource::Templates, TEAM, "a-channel");
        }
    }

    /// Changes the ready domain.
    async fn change(self, api: &FakeApi, uid: &str) {
        match self {
            Self::TemplateAltered => {
                let before = template(api, "a").unwrap()["metadata"]["uid"]
                    .as_str()
                    .unwrap()
                    .to_owned();
                edit_template(api, "a", alter);
                api.until("repaired", |api| is_replaced(api, "a", &before))
                    .await;
            }
            Self::LabelLost => {
                // So that the controller sees the deletion first.
                delete_domain(api, "a");
                strip_labels(api, "a");
            }
            Self::LabelChanged => {
                edit_template(api, "a", |template| {
                    template["metadata"]["labels"][DOMAIN_LABEL] = json!("another");
                });
                let is_back = |api: &FakeApi| {
                    let template = template(api, "a").unwrap_or_default();
                    template["metadata"]["labels"][DOMAIN_LABEL] == *uid
                };
                api.until("labelled again", is_back).await;
            }
            Self::Elected => {
                api.until("renewed", |api| api.count(Call::UpdateLease) > 1)
                    .await;
            }
            Self::ClaimWaits => {
                api.create(mk_claim("waits", uid));
                api.until("reported", |api| reported(api, "a").is_some())
                    .await;
                allocate(api, "waits");
                api.until("no longer", |api| reported(api, "a").is_none())
                    .await;
            }
            Self::CliqueShared => {
                let other = crate::testing::objects::uid(&api.create(mk_domain("b")));
                create_prepared(api, "first", uid, "x");
                create_prepared(api, "second", &other, "x");
                api.until("reported", |api| api.event_note("CliqueShared").is_some())
                    .await;
                delete_domain(api, "b");
            }
            Self::OlderCrd => {
                assert_eq!(reason(api, "a"), "");
                api.set_older_crd(false);
                api.until("conditions", |api| reason(api, "a") == "Admitted")
                    .await;
            }
            _ => {}
        }
    }
}
