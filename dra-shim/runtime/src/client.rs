//! The Kubernetes client: every request has a deadline and sets the API server's condition.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;

use dra_common::Advice;
use http::Uri;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::connection;
use crate::readiness::ReadinessCondition;
use crate::token_file::TokenFile;

/// Why a client cannot be built. All of them are configuration errors.
#[derive(Debug, thiserror::Error, Advice)]
#[non_exhaustive]
pub enum KubeError {
    /// The kubeconfig cannot be used.
    #[error("cannot use kubeconfig {path:?}")]
    #[advice(
        code = "bad-kubeconfig",
        hint = "set --kubeconfig (KUBECONFIG) to a readable kubeconfig"
    )]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: KubeconfigError,
    },
    /// There is neither a kubeconfig nor a service account.
    #[error("no kubeconfig is set, and there is no service account")]
    #[advice(
        code = "no-service-account",
        hint = "run in a pod with a service account token, or set --kubeconfig (KUBECONFIG)"
    )]
    InCluster {
        /// What is missing.
        #[source]
        source: InClusterError,
    },
    /// A proxy is configured.
    #[error("proxies are not supported for the API server ({proxy})")]
    #[advice(
        code = "proxy",
        hint = "remove proxy-url from the kubeconfig, or unset HTTPS_PROXY"
    )]
    Proxy {
        /// The proxy.
        proxy: Uri,
    },
    /// The token file cannot be used.
    #[error("cannot use token file {path:?}")]
    #[advice(
        code = "bad-token-file",
        hint = "write a token for the API server into the file, for example from kubectl create token"
    )]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The credentials or certificates cannot be used.
    #[error("cannot build the Kubernetes client")]
    #[advice(
        code = "bad-credentials",
        hint = "check the certificates and tokens of the kubeconfig or service account"
    )]
    Build {
        /// The cause.
        #[source]
        source: kube::Error,
    },
}

/// Builds a client for this kubeconfig, or for the pod's service account if the path is empty. Does not
/// connect. The results of its requests set the condition `api_server`.
pub(crate) async fn build(
    kubeconfig: &Path,
    api_server: &ReadinessCondition,
) -> Result<Client, KubeError> {
    install_tls_provider();
    let mut config = if kubeconfig.as_os_str().is_empty() {
        Config::incluster().map_err(|source| KubeError::InCluster { source })?
    } else {
        let bad_kubeconfig = |source| KubeError::Kubeconfig {
            path: kubeconfig.to_owned(),
            source,
        };
        let file = Kubeconfig::read_from(kubeconfig).map_err(bad_kubeconfig)?;
        Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
            .await
            .map_err(bad_kubeconfig)?
    };
    if let Some(proxy) = config.proxy_url {
        return Err(KubeError::Proxy { proxy });
    }
    let token = token_file(&mut config)?;
    connection::client(config, token, api_server).map_err(|source| KubeError::Build { source })
}

/// Takes the token file out of the configuration, if kube would use it.
fn token_file(config: &mut Config) -> Result<Option<TokenFile>, KubeError> {
    let auth = &mut config.auth_info;
    if auth.auth_provider.is_some() || auth.username.is_some() || auth.token.is_some() {
        return Ok(None);
    }
    let Some(path) = auth.token_file.take() else {
        return Ok(None);
    };
    // kube prefers the token file to the exec program.
    auth.exec = None;
    let path = PathBuf::from(path);
    match TokenFile::open(path.clone()) {
        Ok(file) => Ok(Some(file)),
        Err(source) => Err(KubeError::TokenFile { path, source }),
    }
}

/// Installs the process's crypto provider. Without one, rustls panics at its first connection.
pub(crate) fn install_tls_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Fails only if one is already installed, which is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readiness::Readiness;

    #[tokio::test]
    async fn a_proxy_is_refused_instead_of_being_bypassed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        let text = r#"{
            "clusters": [{ "name": "c", "cluster": {
                "server": "http://127.0.0.1:1", "proxy-url": "http://127.0.0.1:2"
            } }],
            "contexts": [{ "name": "x", "context": { "cluster": "c", "user": "u" } }],
            "users": [{ "name": "u", "user": {} }],
            "current-context": "x"
        }"#;
        std::fs::write(&path, text).unwrap();
        let condition = Readiness::default().add_condition("api-server", "not reached yet");
        let err = build(&path, &condition).await.err().unwrap();
        assert_eq!(err.code(), "proxy");
        assert!(err.to_string().contains("127.0.0.1:2"), "{err}");
    }
}
