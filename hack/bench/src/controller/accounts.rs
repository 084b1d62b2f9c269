//! The subject and the floor are users of their own, so that the API server's log tells them apart.

use std::path::{Path, PathBuf};

use anyhow::Context;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{ObjectMeta, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::objects::{HOME, NAMESPACES, namespace};
use crate::kubeconfig;

/// Longer than any run.
const TOKEN_SECONDS: i64 = 24 * 3600;

/// The user of the subject or of the floor.
#[derive(Debug)]
pub(super) struct Account {
    /// As the API server's log names it.
    pub(super) user: String,
    /// For programs that run as this user.
    pub(super) kubeconfig: PathBuf,
}

/// Makes every namespace, and gives the users of [`HOME`] all permissions.
pub(super) async fn prepare(admin: &Client) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    for name in (0..NAMESPACES).map(namespace).chain([HOME.to_owned()]) {
        create(&namespaces, json!({"metadata": {"name": name}})).await?;
    }
    let group = format!("system:serviceaccounts:{HOME}");
    let binding = json!({
        "metadata": {"name": HOME},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}],
    });
    create::<ClusterRoleBinding>(&Api::all(admin.clone()), binding).await
}

async fn create<K>(api: &Api<K>, object: Value) -> anyhow::Result<()>
where
    K: Clone + std::fmt::Debug + DeserializeOwned + serde::Serialize,
{
    api.create(&PostParams::default(), &serde_json::from_value(object)?)
        .await?;
    Ok(())
}

// === impl Account ===

impl Account {
    /// Makes the service account `name`, and writes its kubeconfig into `dir`. The server is that
    /// of the kubeconfig in the environment.
    pub(super) async fn create(admin: &Client, name: &str, dir: &Path) -> anyhow::Result<Self> {
        let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), HOME);
        create(&accounts, json!({"metadata": {"name": name}})).await?;
        let request = TokenRequest {
            metadata: ObjectMeta::default(),
            spec: TokenRequestSpec {
                expiration_seconds: Some(TOKEN_SECONDS),
                ..TokenRequestSpec::default()
            },
            status: None,
        };
        let issued = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await?;
        let token = issued.status.context("a token request without a token")?;
        let path = dir.join(format!("{name}.kubeconfig"));
        kubeconfig::write(&path, &cluster()?, &json!({"token": token.token}))?;
        Ok(Self {
            user: format!("system:serviceaccount:{HOME}:{name}"),
            kubeconfig: path,
        })
    }
}

/// The API server of the kubeconfig in the environment, as a kubeconfig names it.
fn cluster() -> anyhow::Result<Value> {
    let mut config = Kubeconfig::read()?;
    let cluster = config.clusters.pop().and_then(|named| named.cluster);
    let cluster = cluster.context("KUBECONFIG names no cluster")?;
    Ok(json!({
        "server": cluster.server, "certificate-authority": cluster.certificate_authority,
    }))
}
