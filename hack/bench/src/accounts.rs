//! Users of the measured programs, which the API server's audit log distinguishes.

use std::path::{Path, PathBuf};

use anyhow::Context;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{ObjectMeta, PostParams};
use kube::config::Kubeconfig;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::create::create;
use crate::kubeconfig;

/// The namespace of the users.
pub(crate) const HOME: &str = "bench";

/// The lifetime of tokens: longer than any run.
const TOKEN_SECONDS: i64 = 24 * 3600;

/// The user of a measured program.
#[derive(Debug)]
pub(crate) struct Account {
    /// The name in the API server's audit log.
    pub(crate) user: String,
    /// The kubeconfig of programs that run as this user.
    pub(crate) kubeconfig: PathBuf,
}

/// Creates [`HOME`] and the other namespaces, and gives the users of [`HOME`] all permissions.
pub(crate) async fn prepare(
    admin: &Client,
    others: impl IntoIterator<Item = String>,
) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    for name in others.into_iter().chain([HOME.to_owned()]) {
        create(&namespaces, json!({"metadata": {"name": name}})).await?;
    }
    let group = format!("system:serviceaccounts:{HOME}");
    let binding = json!({
        "metadata": {"name": HOME},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}],
    });
    create::<ClusterRoleBinding>(&Api::all(admin.clone()), binding).await?;
    Ok(())
}

// === impl Account ===

impl Account {
    /// Creates the service account `name` and writes its kubeconfig into `dir`, for the API server in
    /// `KUBECONFIG`.
    pub(crate) async fn create(admin: &Client, name: &str, dir: &Path) -> anyhow::Result<Self> {
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

/// The API server in `KUBECONFIG`, as a kubeconfig entry.
fn cluster() -> anyhow::Result<Value> {
    let mut config = Kubeconfig::read()?;
    let cluster = config.clusters.pop().and_then(|named| named.cluster);
    let cluster = cluster.context("KUBECONFIG names no cluster")?;
    Ok(json!({
        "server": cluster.server, "certificate-authority": cluster.certificate_authority,
    }))
}
