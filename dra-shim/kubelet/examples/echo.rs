//! A DRA driver without hardware: a pod that claims one of its devices finds
//! `ECHO=TEXT` in its environment. The text is the claim's opaque parameter
//! `{"echo": "TEXT"}`; without a parameter, it is the claim's UID.
//!
//! In a pod it needs only `NODE_NAME`. Outside a pod, on a node, run
//! `echo --node-name NODE --kubeconfig FILE`.

use std::error::Error;
use std::path::PathBuf;
use std::{fs, io};

use dra_kubelet::{
    Claim, ClaimError, ClaimRef, Context, DesiredPool, DeviceConfig, Driver, KubeClaims, Plugin,
    PreparedDevice,
};
use k8s_openapi::api::resource::v1 as resource;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

const DRIVER: &str = "echo.example.com";
const USAGE: &str = "usage: echo [--node-name NODE] [--kubeconfig FILE] \
    [--kubelet-root DIR] [--cdi-dir DIR] [--only-v1beta1]";

/// The driver. It keeps no claims in memory: after a restart or during a rolling update, kubelet
/// calls another process. Its state is on disk: the CDI files.
struct Echo {
    cdi_dir: PathBuf,
}

/// User input. Neither the API server nor the library validates it.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    echo: String,
}

impl Driver for Echo {
    async fn prepare(
        &self,
        context: &Context,
        claim: &Claim,
    ) -> Result<Vec<PreparedDevice>, ClaimError> {
        let uid = claim.id.uid.clone();
        let spec = serde_json::json!({
            "cdiVersion": "0.5.0",
            "kind": "echo.example.com/claim",
            "devices": [{"name": uid, "containerEdits": {"env": [format!("ECHO={}", text(claim)?)]}}],
        });
        let path = self.spec_path(&uid);
        // Written on every call, because after a reboot the directory is empty. The
        // runtime reads only `*.json`, so it never sees an incomplete file.
        context
            .run_blocking(move || {
                let unfinished = path.with_extension("new");
                fs::write(&unfinished, spec.to_string())
                    .and_then(|()| fs::rename(unfinished, path))
                    .map_err(|error| ClaimError::retry(error).with_code("spec-write"))
            })
            .await?;
        let cdi_ids = vec![format!("echo.example.com/claim={uid}")];
        let results = claim.results.iter();
        Ok(results
            .map(|result| PreparedDevice::from_result(result, cdi_ids.clone()))
            .collect())
    }

    async fn unprepare(&self, context: &Context, claim: &ClaimRef) -> Result<(), ClaimError> {
        let path = self.spec_path(&claim.uid);
        context
            .run_blocking(move || match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    Err(ClaimError::retry(error).with_code("spec-remove"))
                }
                _ => Ok(()),
            })
            .await
    }
}

impl Echo {
    /// Named after the UID: another claim may have the same name later.
    fn spec_path(&self, uid: &str) -> PathBuf {
        self.cdi_dir
            .join(format!("echo.example.com-claim_{uid}.json"))
    }
}

/// Later configurations override earlier ones.
fn text(claim: &Claim) -> Result<String, ClaimError> {
    let applies =
        |config: &&DeviceConfig| claim.results.iter().any(|result| config.applies_to(result));
    let Some(config) = claim.configs.iter().rfind(applies) else {
        return Ok(claim.id.uid.clone());
    };
    let parameters: Parameters = serde_json::from_str(config.parameters()).map_err(|error| {
        ClaimError::permanent(format_args!("invalid parameters: {error}"))
            .with_code("invalid-parameters")
    })?;
    Ok(parameters.echo)
}

struct Args {
    node: String,
    /// `None` in a pod, which uses its `ServiceAccount`.
    kubeconfig: Option<PathBuf>,
    kubelet_root: PathBuf,
    cdi_dir: PathBuf,
    only_v1beta1: bool,
}

impl Args {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut args = Self {
            node: std::env::var("NODE_NAME").unwrap_or_default(),
            kubeconfig: None,
            kubelet_root: "/var/lib/kubelet".into(),
            cdi_dir: "/var/run/cdi".into(),
            only_v1beta1: false,
        };
        while let Some(flag) = arguments.next() {
            let mut value = || {
                arguments
                    .next()
                    .ok_or_else(|| format!("{flag} needs a value"))
            };
            match flag.as_str() {
                "--node-name" => args.node = value()?,
                "--kubeconfig" => args.kubeconfig = Some(value()?.into()),
                "--kubelet-root" => args.kubelet_root = value()?.into(),
                "--cdi-dir" => args.cdi_dir = value()?.into(),
                "--only-v1beta1" => args.only_v1beta1 = true,
                _ => return Err(USAGE.to_owned()),
            }
        }
        Ok(args)
    }

    async fn client(&self) -> Result<kube::Client, Box<dyn Error>> {
        let Some(file) = &self.kubeconfig else {
            return Ok(kube::Client::try_default().await?);
        };
        let kubeconfig = Kubeconfig::read_from(file)?;
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
        Ok(kube::Client::try_from(config)?)
    }
}

/// A driver has little work, so two worker threads are enough (tokio's default is one per
/// core), and four threads for `run_blocking` (instead of up to 512, each with its own memory).
/// A fifth claim waits until one of the four is free. That is fine for writing one small file.
fn main() -> Result<(), Box<dyn Error>> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(4)
        .enable_all()
        .build()?
        .block_on(run())
}

async fn run() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().init();
    let args = std::env::args_os().skip(1);
    let args = Args::parse(args.map(|it| it.to_string_lossy().into_owned()))?;
    let client = args.client().await?;
    fs::create_dir_all(&args.cdi_dir)?;

    // Registered before the start: SIGTERM does not end the first process of a container
    // unless the process handles it.
    let mut terminate = signal(SignalKind::terminate())?;
    let device = |n| resource::Device {
        name: format!("echo-{n}"),
        ..Default::default()
    };
    let (_devices, desired) = watch::channel(DesiredPool::Devices((0..4).map(device).collect()));
    let mut builder = Plugin::builder(DRIVER, &args.node)
        .kubelet_root(&args.kubelet_root)
        .publish(client.clone(), desired);
    if args.only_v1beta1 {
        builder = builder.only_v1beta1();
    }
    let driver = Echo {
        cdi_dir: args.cdi_dir,
    };
    let mut plugin = builder.start(driver, KubeClaims::new(client))?;
    tokio::select! {
        error = plugin.failed() => return Err(error.into()),
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    plugin.shutdown().await;
    Ok(())
}
