//! A driver that prepares every claim, in a separate process that tests can kill:
//! `steady-driver DRIVER NODE DEVICE [REGISTRY-DIR]`, with the cluster's
//! kubeconfig in `KUBECONFIG`. It prints `prepare UID` and `unprepare UID` for
//! each call, and `registered` for each registration.

use std::io::Write as _;

use anyhow::{Context as _, Result};
use dra_kubelet::{
    Claim, ClaimError, ClaimRef, Context, DesiredPool, Driver, KubeClaims, Plugin, PreparedDevice,
    Registration,
};
use k8s_openapi::api::resource::v1 as resource;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

struct Steady;

impl Driver for Steady {
    async fn prepare(&self, _: &Context, claim: &Claim) -> Result<Vec<PreparedDevice>, ClaimError> {
        say(&format!("prepare {}", claim.id.uid));
        let results = claim.results.iter();
        Ok(results
            .map(|it| PreparedDevice::from_result(it, Vec::new()))
            .collect())
    }

    async fn unprepare(&self, _: &Context, claim: &ClaimRef) -> Result<(), ClaimError> {
        say(&format!("unprepare {}", claim.uid));
        Ok(())
    }
}

/// Prints one line; does not exit if the reader has closed the pipe.
fn say(line: &str) {
    drop(writeln!(std::io::stdout().lock(), "{line}"));
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let mut words = std::env::args().skip(1);
    let mut word = |what| words.next().with_context(|| format!("{what} is missing"));
    let (driver, node, device) = (word("DRIVER")?, word("NODE")?, word("DEVICE")?);
    let registry = word("REGISTRY-DIR").ok();

    let mut terminate = signal(SignalKind::terminate())?;
    let client = kube::Client::try_default().await?;
    let device = resource::Device {
        name: device,
        ..Default::default()
    };
    let (_devices, desired) = watch::channel(DesiredPool::Devices(vec![device]));
    let mut builder = Plugin::builder(driver, node).publish(client.clone(), desired);
    if let Some(directory) = registry {
        builder = builder.registry_dir(directory);
    }
    let mut plugin = builder.start(Steady, KubeClaims::new(client))?;
    let mut registration = plugin.registration();
    let registered = async {
        while registration.changed().await.is_ok() {
            if *registration.borrow_and_update() == Registration::Registered {
                say("registered");
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        error = plugin.failed() => return Err(error.into()),
        () = registered => {}
        _ = terminate.recv() => {}
    }
    plugin.shutdown().await;
    Ok(())
}
