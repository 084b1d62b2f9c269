//! Adds the pod's name and namespace to the environment of its containers, and refuses
//! containers of a pod with the annotation `pod-env.example.com/refuse`. Run it on a node, as
//! root: `pod-env [SOCKET]`.

use std::error::Error;
use std::process::ExitCode;

use nri_plugin::api::{Container, ContainerAdjustment, PodSandbox};
use nri_plugin::{Context, Creation, Events, Late, Plugin, Refusal, Service};
use tokio::signal::unix::{SignalKind, signal};

struct PodEnv;

impl Plugin for PodEnv {
    fn events(&self) -> Events {
        Events::CREATE_CONTAINER
    }

    async fn create_container(
        &self,
        _: &Context,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<Creation, Refusal> {
        if let Some(reason) = pod.annotations.get("pod-env.example.com/refuse") {
            let name = &container.name;
            return Err(Refusal::new(format!("container {name}: {reason}")));
        }
        let adjustment = ContainerAdjustment::default()
            .with_env("POD_NAME", &pod.name)
            .with_env("POD_NAMESPACE", &pod.namespace);
        Ok(adjustment.into())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().init();
    let Err(error) = run().await else {
        return ExitCode::SUCCESS;
    };
    tracing::error!("{error}");
    ExitCode::FAILURE
}

async fn run() -> Result<(), Box<dyn Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut builder = Service::builder(50, "pod-env").on_late(Late::Refuse);
    if let Some(socket) = std::env::args_os().nth(1) {
        builder = builder.socket(socket);
    }
    let mut service = builder.start(PodEnv)?;
    tokio::select! {
        // Returns only if the runtime has started the plugin.
        error = service.ended() => return Err(format!("{error}; {}", error.hint()).into()),
        _ = terminate.recv() => {}
    }
    service.shutdown().await;
    Ok(())
}
