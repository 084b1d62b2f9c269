//! A plugin with a scripted driver on real sockets, and kubelet's side.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

pub mod api;
pub mod node;
pub mod notes;
pub mod registrar;

use std::collections::HashMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dra_kubelet::{
    Claim, ClaimError, ClaimRef, ClaimSource, Context, Driver, GetClaimError, Plugin,
    PluginBuilder, PreparedDevice,
};
use futures_util::future::BoxFuture;
use tempfile::TempDir;
use tonic::transport::{Channel, Endpoint};

#[allow(
    clippy::all,
    clippy::pedantic,
    missing_docs,
    unreachable_pub,
    reason = "generated"
)]
pub mod proto {
    pub mod registration {
        tonic::include_proto!("pluginregistration");
    }
    pub mod v1 {
        tonic::include_proto!("k8s.io.kubelet.pkg.apis.dra.v1");
    }
    pub mod v1beta1 {
        tonic::include_proto!("k8s.io.kubelet.pkg.apis.dra.v1beta1");
    }
    pub mod health {
        tonic::include_proto!("v1alpha1");
    }
}

use proto::registration::registration_client::RegistrationClient;
use proto::registration::{InfoRequest, PluginInfo, RegistrationStatus};
use proto::v1::dra_plugin_client::DraPluginClient;

pub const DRIVER: &str = "test.example.com";
/// Timeout of a test for events that normally happen much sooner.
pub const GIVE_UP: Duration = Duration::from_secs(60);

type Prepared = Result<Vec<PreparedDevice>, ClaimError>;

/// A step of a driver, as a closure.
type Step<T, R> =
    Box<dyn Fn(Context, T) -> BoxFuture<'static, Result<R, ClaimError>> + Send + Sync>;

/// A driver of two closures.
pub struct Script {
    pub prepare: Step<Claim, Vec<PreparedDevice>>,
    pub unprepare: Step<ClaimRef, ()>,
}

impl Script {
    /// Prepares with `prepare`; unprepares always succeed.
    pub fn preparing<F>(prepare: impl Fn(Context, Claim) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Prepared> + Send + 'static,
    {
        Self {
            prepare: Box::new(move |context, claim| Box::pin(prepare(context, claim))),
            unprepare: Box::new(|_, _| Box::pin(async { Ok(()) })),
        }
    }

    /// Returns the allocation results at once.
    pub fn instant() -> Self {
        Self::preparing(|_, claim| async move { Ok(devices(&claim)) })
    }
}

/// One device for each result, with a CDI id from the UID.
pub fn devices(claim: &Claim) -> Vec<PreparedDevice> {
    let cdi_ids = vec![format!("example.com/test={}", claim.id.uid)];
    let results = claim.results.iter();
    results
        .map(|it| PreparedDevice::from_result(it, cdi_ids.clone()))
        .collect()
}

impl Driver for Script {
    async fn prepare(&self, context: &Context, claim: &Claim) -> Prepared {
        (self.prepare)(context.clone(), claim.clone()).await
    }

    async fn unprepare(&self, context: &Context, claim: &ClaimRef) -> Result<(), ClaimError> {
        (self.unprepare)(context.clone(), claim.clone()).await
    }
}

/// Claims in memory, by name. The namespace is always `ns`.
#[derive(Clone, Default)]
pub struct Claims(Arc<Mutex<HashMap<String, String>>>);

impl Claims {
    /// `name`s with the UID `uid-NAME`, each with one device of the driver.
    pub fn allocated(names: &[&str]) -> Self {
        let claims = Self::default();
        for name in names {
            claims.put(name, &format!("uid-{name}"), Some(DRIVER));
        }
        claims
    }

    pub fn put(&self, name: &str, uid: &str, allocated_by: Option<&str>) {
        let status = allocated_by.map_or_else(
            || "{}".to_owned(),
            |driver| {
                format!(
                    r#"{{"allocation":{{"devices":{{"results":[{{"request":"r/sub","driver":"{driver}","pool":"n1","device":"d0","shareID":"share-1"}}]}}}}}}"#
                )
            },
        );
        let object =
            format!(r#"{{"metadata":{{"name":"{name}","uid":"{uid}"}},"status":{status}}}"#);
        self.0.lock().unwrap().insert(name.to_owned(), object);
    }
}

impl Claims {
    /// `NAME` with the UID `uid-NAME` and these results, as JSON.
    pub fn put_results(&self, name: &str, results: &str) {
        let object = format!(
            r#"{{"metadata":{{"uid":"uid-{name}"}},"status":{{"allocation":{{"devices":{{"results":{results}}}}}}}}}"#
        );
        self.0.lock().unwrap().insert(name.to_owned(), object);
    }
}

impl ClaimSource for Claims {
    async fn get(&self, namespace: &str, name: &str) -> Result<String, GetClaimError> {
        assert_eq!(namespace, "ns");
        self.0
            .lock()
            .unwrap()
            .get(name)
            .cloned()
            .ok_or(GetClaimError::NotFound)
    }
}

/// A plugin under test below a temporary kubelet root.
pub struct Running {
    pub plugin: Plugin,
    pub root: TempDir,
}

pub fn start(driver: Script, claims: impl ClaimSource) -> Running {
    start_with(driver, claims, |builder| builder)
}

pub fn start_with(
    driver: Script,
    claims: impl ClaimSource,
    settings: impl FnOnce(PluginBuilder) -> PluginBuilder,
) -> Running {
    let root = tempfile::tempdir().unwrap();
    let builder = Plugin::builder(DRIVER, "n1").kubelet_root(root.path());
    let plugin = settings(builder).start(driver, claims).unwrap();
    Running { plugin, root }
}

impl Running {
    pub fn registry(&self) -> PathBuf {
        self.root.path().join("plugins_registry")
    }

    pub fn data(&self) -> PathBuf {
        self.root.path().join("plugins").join(DRIVER)
    }

    /// The only registration socket.
    pub fn registration_socket(&self) -> PathBuf {
        let sockets = files(&self.registry());
        assert_eq!(sockets.len(), 1, "{sockets:?}");
        sockets[0].clone()
    }

    pub async fn registration(&self) -> RegistrationClient<Channel> {
        RegistrationClient::new(connect(&self.registration_socket()).await)
    }

    /// The plugin's answer to `GetInfo`.
    pub async fn info(&self) -> PluginInfo {
        let mut client = self.registration().await;
        client.get_info(InfoRequest {}).await.unwrap().into_inner()
    }

    /// The plugin's service, found like by kubelet: through the registration.
    pub async fn service(&self) -> Channel {
        connect(Path::new(&self.info().await.endpoint)).await
    }

    pub async fn dra(&self) -> DraPluginClient<Channel> {
        DraPluginClient::new(self.service().await)
    }
}

pub async fn connect(socket: &Path) -> Channel {
    let endpoint = Endpoint::from_shared(format!("unix:{}", socket.display())).unwrap();
    endpoint.connect().await.unwrap()
}

/// kubelet's notification of a registered plugin.
pub fn registered() -> RegistrationStatus {
    RegistrationStatus {
        plugin_registered: true,
        error: String::new(),
    }
}

/// Notifies the plugin behind the registration socket that it is registered.
pub async fn notify(socket: &Path) {
    let mut client = RegistrationClient::new(connect(socket).await);
    client
        .notify_registration_status(registered())
        .await
        .unwrap();
}

/// The files of a directory, in order of names.
pub fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

pub fn claim(name: &str) -> proto::v1::Claim {
    proto::v1::Claim {
        namespace: "ns".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
    }
}

pub fn prepare_request(
    names: &[&str],
    timeout: Duration,
) -> tonic::Request<proto::v1::NodePrepareResourcesRequest> {
    let claims = names.iter().map(|name| claim(name)).collect();
    let mut request = tonic::Request::new(proto::v1::NodePrepareResourcesRequest { claims });
    request.set_timeout(timeout);
    request
}

pub fn unprepare_request(
    names: &[&str],
    timeout: Duration,
) -> tonic::Request<proto::v1::NodeUnprepareResourcesRequest> {
    let claims = names.iter().map(|name| claim(name)).collect();
    let mut request = tonic::Request::new(proto::v1::NodeUnprepareResourcesRequest { claims });
    request.set_timeout(timeout);
    request
}

/// Waits for a condition; panics with `what` after the timeout.
pub async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(GIVE_UP, waiting)
        .await
        .unwrap_or_else(|_| panic!("never: {what}"));
}

/// Waits for a future; panics with `what` after the timeout.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(GIVE_UP, future)
        .await
        .unwrap_or_else(|_| panic!("never: {what}"))
}
