//! The Kubernetes client of a daemon: every call ends, and its outcome is seen.

mod deadline;

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::time::Duration;

use kube::client::ClientBuilder;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use crate::Condition;
use deadline::DeadlineLayer;

/// The longest that a request other than a watch may take, retries included.
pub const REQUEST_DEADLINE: Duration = Duration::from_secs(10);

/// Silence on a connection after which it is given up. A watch is ended by the server within 290 s
/// (that is what kube asks for), so a longer silence is a dead peer.
const SILENCE: Duration = Duration::from_secs(300);

/// Why there is no client. All are of the configuration.
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
    /// Not in a pod with a service account.
    #[error("no kubeconfig given and no service account found")]
    InCluster {
        /// What is missing.
        #[source]
        source: InClusterError,
    },
    /// The credentials or certificates cannot be used.
    #[error("cannot make a client from the configuration")]
    Build {
        /// Why.
        #[source]
        source: kube::Error,
    },
}

impl KubeError {
    /// A stable word for logs.
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

/// A client from this kubeconfig, or from the pod's service account if the path is empty.
pub(crate) async fn connect(kubeconfig: &Path, reached: &Condition) -> Result<Client, KubeError> {
    install_tls_provider();
    let mut config = if kubeconfig.as_os_str().is_empty() {
        Config::incluster().map_err(|source| KubeError::InCluster { source })?
    } else {
        let refuse = |source| KubeError::Kubeconfig {
            path: kubeconfig.to_owned(),
            source,
        };
        let file = Kubeconfig::read_from(kubeconfig).map_err(refuse)?;
        Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
            .await
            .map_err(refuse)?
    };
    config.connect_timeout = Some(Duration::from_secs(5));
    config.read_timeout = Some(SILENCE);
    let builder = ClientBuilder::try_from(config).map_err(|source| KubeError::Build { source })?;
    Ok(builder
        .with_layer(&DeadlineLayer::new(reached.clone()))
        .build())
}

/// rustls panics at its first connection if no provider was chosen for the process.
pub(crate) fn install_tls_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Fails only if one is installed already, which is what is wanted.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
