//! A DRA driver without hardware: a pod that claims one of its devices finds
//! `ECHO=TEXT` in its environment. The text is the claim's opaque parameter
//! `{"echo": "TEXT"}`, without one the claim's UID.
//!
//! It runs on a node, with kubelet's directories and a CDI directory that the
//! container runtime reads:
//!
//! ```text
//! echo --node-name NODE [--kubeconfig FILE] [--kubelet-root DIR] [--cdi-dir DIR]
//! ```

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use dra_kubelet::{Call, Claim, ClaimError, ClaimRef, Desired, Device, Driver, KubeClaims, Plugin};
use k8s_openapi::api::resource::v1 as resource;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

const DRIVER: &str = "echo.example.com";

struct Echo {
    cdi: PathBuf,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    echo: String,
}

impl Driver for Echo {
    async fn prepare(&self, call: &Call, claim: &Claim) -> Result<Vec<Device>, ClaimError> {
        let text = text(claim)?;
        let uid = claim.id.uid.clone();
        let spec = serde_json::json!({
            "cdiVersion": "0.5.0",
            "kind": "echo.example.com/claim",
            "devices": [{"name": uid, "containerEdits": {"env": [format!("ECHO={text}")]}}],
        });
        let path = self.path(&uid);
        // Written on every call: after a reboot the directory is empty.
        call.run_blocking(move || write(&path, &spec.to_string()).map_err(ClaimError::retry))
            .await?;
        let device = |result: &dra_kubelet::Allocated| Device {
            requests: vec![result.base_request().to_owned()],
            pool: result.pool.clone(),
            device: result.device.clone(),
            cdi_ids: vec![format!("echo.example.com/claim={uid}")],
            share_id: result.share_id.clone(),
        };
        Ok(claim.results.iter().map(device).collect())
    }

    async fn unprepare(&self, call: &Call, claim: &ClaimRef) -> Result<(), ClaimError> {
        let path = self.path(&claim.uid);
        call.run_blocking(move || match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ClaimError::retry(error)),
            _ => Ok(()),
        })
        .await
    }
}

impl Echo {
    fn path(&self, uid: &str) -> PathBuf {
        self.cdi.join(format!("echo.example.com-claim_{uid}.json"))
    }
}

/// Later configurations override earlier ones.
fn text(claim: &Claim) -> Result<String, ClaimError> {
    let applies = |config: &&dra_kubelet::Config| {
        claim.results.iter().any(|result| config.applies_to(result))
    };
    let Some(config) = claim.configs.iter().rfind(applies) else {
        return Ok(claim.id.uid.clone());
    };
    let parameters: Parameters = serde_json::from_str(config.parameters.get())
        .map_err(|error| ClaimError::permanent(format_args!("invalid parameters: {error}")))?;
    Ok(parameters.echo)
}

/// The runtime sees the whole file or none: it skips dot-files.
fn write(path: &Path, content: &str) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let hidden = path.with_file_name(format!(".{name}"));
    let mut file = File::create(&hidden)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    fs::rename(hidden, path)
}

struct Args {
    node: String,
    kubeconfig: Option<PathBuf>,
    kubelet_root: PathBuf,
    cdi: PathBuf,
}

impl Args {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let mut args = Self {
            node: String::new(),
            kubeconfig: None,
            kubelet_root: "/var/lib/kubelet".into(),
            cdi: "/var/run/cdi".into(),
        };
        while let Some(flag) = words.next() {
            let value = words
                .next()
                .ok_or_else(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--node-name" => args.node = value,
                "--kubeconfig" => args.kubeconfig = Some(value.into()),
                "--kubelet-root" => args.kubelet_root = value.into(),
                "--cdi-dir" => args.cdi = value.into(),
                _ => return Err(format!("unknown flag {flag}").into()),
            }
        }
        Ok(args)
    }
}

async fn client(kubeconfig: Option<&Path>) -> Result<kube::Client, Box<dyn Error>> {
    let mut config = match kubeconfig {
        None => Config::incluster()?,
        Some(path) => {
            let file = Kubeconfig::read_from(path)?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?
        }
    };
    config.connect_timeout = Some(Duration::from_secs(5));
    Ok(kube::Client::try_from(config)?)
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().init();
    let args = Args::parse(std::env::args().skip(1))?;
    fs::create_dir_all(&args.cdi)?;
    let client = client(args.kubeconfig.as_deref()).await?;

    let device = |n| resource::Device {
        name: format!("echo-{n}"),
        ..Default::default()
    };
    let (_devices, desired) = watch::channel(Desired::Devices((0..4).map(device).collect()));
    let mut plugin = Plugin::builder(DRIVER, args.node)
        .kubelet_root(args.kubelet_root)
        .publish(client.clone(), desired)
        .start(Echo { cdi: args.cdi }, KubeClaims::new(client))?;

    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        error = plugin.failed() => return Err(error.into()),
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    plugin.shutdown().await;
    Ok(())
}
