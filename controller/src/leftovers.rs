//! Logs leftovers of the Go driver's driver-managed mode at start. They are never changed.

use std::fmt;

use compute_domain_api::names::DOMAIN_LABEL;
use dra_common::error_chain;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tracing::{info, warn};

use crate::reconcile::Context;

/// How many objects of a kind are named.
const NAMED: u32 = 10;

/// Logs the objects of the driver-managed mode, and how to remove them. The administrator must decide, because
/// daemons may still serve pods.
// req: CD-17
pub(crate) async fn report(client: &Client, context: &Context) {
    let templates = daemon_templates(context);
    if !templates.is_empty() {
        warn!(
            templates = templates.join(", "),
            "ResourceClaimTemplates of the Go driver's driver-managed mode exist; to remove them, list their namespaces in --additional-namespaces (ADDITIONAL_NAMESPACES) and run the commands in the conditions of their ComputeDomains"
        );
    }
    for namespace in &context.driver_namespaces {
        let api: Api<DaemonSet> = Api::namespaced(client.clone(), namespace);
        if let Some(names) = labelled(&api, "DaemonSets").await {
            warn!(
                daemon_sets = names,
                namespace,
                "DaemonSets of the Go driver's driver-managed mode exist; once no pod uses these DaemonSets, run kubectl delete daemonset -n {namespace} -l {DOMAIN_LABEL} --wait=false and remove their finalizer"
            );
        }
    }
    let api: Api<Node> = Api::all(client.clone());
    if let Some(names) = labelled(&api, "nodes").await {
        warn!(
            nodes = names,
            "nodes have the label of the Go driver's driver-managed mode, but this driver does not use that label; to remove the label, run kubectl label nodes -l {DOMAIN_LABEL} {DOMAIN_LABEL}-"
        );
    }
}

fn daemon_templates(context: &Context) -> Vec<String> {
    let index = context.index.lock();
    let templates = index.daemon_templates();
    let templates = templates.take(NAMED as usize);
    templates
        .map(|template| template.reference().to_string())
        .collect()
}

/// The names of the labelled objects; `None` if there are none, or the list fails.
async fn labelled<K>(api: &Api<K>, kind: &str) -> Option<String>
where
    K: Clone + fmt::Debug + DeserializeOwned,
{
    let params = ListParams::default().labels(DOMAIN_LABEL).limit(NAMED);
    match api.list_metadata(&params).await {
        Ok(list) if list.items.is_empty() => None,
        Ok(list) => {
            let names: Vec<_> = list
                .items
                .into_iter()
                .filter_map(|object| object.metadata.name)
                .collect();
            let more = list
                .metadata
                .continue_
                .is_some_and(|token| !token.is_empty());
            Some(names.join(", ") + if more { ", ..." } else { "" })
        }
        Err(err) => {
            info!(
                kind,
                error = error_chain(&err),
                "cannot search for objects of the Go driver's driver-managed mode"
            );
            None
        }
    }
}
