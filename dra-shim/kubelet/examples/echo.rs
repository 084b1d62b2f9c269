//! A DRA driver without hardware: a pod that claims one of its devices finds
//! `ECHO=TEXT` in its environment. The text is the claim's opaque parameter
//! `{"echo": "TEXT"}`, without one the claim's UID.
//!
//! It runs on a node: `echo --node-name NODE --kubeconfig FILE`. (In a pod,
//! `kube::Client::try_default` takes the place of the file.)

use std::error::Error;
use std::path::PathBuf;
use std::{fs, io};

use dra_kubelet::{
    Allocated, Call, Claim, ClaimError, ClaimRef, Config, Desired, Device, Driver, KubeClaims,
    Plugin,
};
use k8s_openapi::api::resource::v1 as resource;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

struct Echo;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    echo: String,
}

impl Driver for Echo {
    async fn prepare(&self, call: &Call, claim: &Claim) -> Result<Vec<Device>, ClaimError> {
        let uid = claim.id.uid.clone();
        let spec = serde_json::json!({
            "cdiVersion": "0.5.0",
            "kind": "echo.example.com/claim",
            "devices": [{"name": uid, "containerEdits": {"env": [format!("ECHO={}", text(claim)?)]}}],
        });
        let path = spec_path(&uid);
        // Written on every call: after a reboot the directory is empty. The runtime
        // sees the whole file or none, since it reads `*.json` only.
        call.run_blocking(move || {
            let unfinished = path.with_extension("new");
            fs::write(&unfinished, spec.to_string())
                .and_then(|()| fs::rename(unfinished, path))
                .map_err(ClaimError::retry)
        })
        .await?;
        let device = |result: &Allocated| Device {
            requests: vec![result.base_request().to_owned()],
            pool: result.pool.clone(),
            device: result.device.clone(),
            cdi_ids: vec![format!("echo.example.com/claim={uid}")],
            share_id: result.share_id.clone(),
        };
        Ok(claim.results.iter().map(device).collect())
    }

    async fn unprepare(&self, call: &Call, claim: &ClaimRef) -> Result<(), ClaimError> {
        let path = spec_path(&claim.uid);
        call.run_blocking(move || match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ClaimError::retry(error)),
            _ => Ok(()),
        })
        .await
    }
}

fn spec_path(uid: &str) -> PathBuf {
    format!("/var/run/cdi/echo.example.com-claim_{uid}.json").into()
}

/// Later configurations override earlier ones.
fn text(claim: &Claim) -> Result<String, ClaimError> {
    let applies = |config: &&Config| claim.results.iter().any(|result| config.applies_to(result));
    let Some(config) = claim.configs.iter().rfind(applies) else {
        return Ok(claim.id.uid.clone());
    };
    let parameters: Parameters = serde_json::from_str(config.parameters.get())
        .map_err(|error| ClaimError::permanent(format_args!("invalid parameters: {error}")))?;
    Ok(parameters.echo)
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().init();
    let words: Vec<_> = std::env::args().collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    let [_, "--node-name", node, "--kubeconfig", kubeconfig] = *words else {
        return Err("usage: echo --node-name NODE --kubeconfig FILE".into());
    };
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    let client = kube::Client::try_from(config)?;
    fs::create_dir_all("/var/run/cdi")?;

    // Before the start: as a container's first process, a program that does not
    // handle SIGTERM is not ended by it.
    let mut terminate = signal(SignalKind::terminate())?;
    let device = |n| resource::Device {
        name: format!("echo-{n}"),
        ..Default::default()
    };
    let (_devices, desired) = watch::channel(Desired::Devices((0..4).map(device).collect()));
    let mut plugin = Plugin::builder("echo.example.com", node)
        .publish(client.clone(), desired)
        .start(Echo, KubeClaims::new(client))?;
    tokio::select! {
        error = plugin.failed() => return Err(error.into()),
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    plugin.shutdown().await;
    Ok(())
}
