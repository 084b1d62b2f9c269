//! The Kubernetes client: every request ends in time, and its result is reported.

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use kube::client::ClientBuilder;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::deadline::DeadlineLayer;
use crate::readiness::ReadinessCondition;

/// A connection without data for this long is closed. kube asks the server to end a watch within
/// 290 s, so the other side must be dead.
const READ_TIMEOUT: Duration = Duration::from_secs(300);

/// Why a client cannot be built. Every one is a configuration error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KubeError {
    /// The kubeconfig cannot be used.
    #[error("cannot use kubeconfig {path:?}")]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: KubeconfigError,
    },
    /// There is neither a kubeconfig nor a service account.
    #[error("no kubeconfig is set, and there is no service account")]
    InCluster {
        /// What is missing.
        #[source]
        source: InClusterError,
    },
    /// The credentials or certificates cannot be used.
    #[error("cannot build a client from the configuration")]
    Build {
        /// Why.
        #[source]
        source: kube::Error,
    },
}

impl KubeError {
    /// A stable name of the error, for logs and tests.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Kubeconfig { .. } => "bad-kubeconfig",
            Self::InCluster { .. } => "no-service-account",
            Self::Build { .. } => "bad-credentials",
        }
    }

    /// What to change.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Kubeconfig { .. } => "set --kubeconfig (KUBECONFIG) to a readable kubeconfig",
            Self::InCluster { .. } => {
                "run in a pod with a service account token, or set --kubeconfig (KUBECONFIG)"
            }
            Self::Build { .. } => {
                "check the certificates and tokens of the kubeconfig or service account"
            }
        }
    }
}

/// A client for this kubeconfig, or for the pod's service account if the path is empty. Does not
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
    config.connect_timeout = Some(Duration::from_secs(5));
    config.read_timeout = Some(READ_TIMEOUT);
    let builder = ClientBuilder::try_from(config).map_err(|source| KubeError::Build { source })?;
    Ok(builder
        .with_layer(&DeadlineLayer::new(api_server.clone()))
        .build())
}

/// Chooses the crypto provider of the process. Without one, rustls panics at its first connection.
pub(crate) fn install_tls_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Fails only if one is installed already, which is just as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
