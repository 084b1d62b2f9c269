//! What containerd's `device-injector` does with CDI devices, for tests: a plugin of the runtime's NRI that gives a
//! container those that its pod's annotation names, `cdi-devices.noderesource.dev/container.NAME`, a YAML list.
//! `device-injector SOCKET`, until it is killed; it prints `registered` when it is.

use std::io::Write as _;

use anyhow::{Context as _, Result};
use nri_plugin::api::{Container, ContainerAdjustment, PodSandbox};
use nri_plugin::{Context, Creation, Events, Plugin, Refusal, Service, State};

struct Injector;

impl Plugin for Injector {
    fn events(&self) -> Events {
        Events::CREATE_CONTAINER
    }

    async fn create_container(
        &self,
        _: &Context,
        pod: &PodSandbox,
        container: &Container,
    ) -> Result<Creation, Refusal> {
        let key = format!("cdi-devices.noderesource.dev/container.{}", container.name);
        let list = pod.annotations.get(&key).map_or("", String::as_str);
        let devices = list.lines().filter_map(|line| line.strip_prefix("- "));
        let adjustment = devices.fold(ContainerAdjustment::default(), |adjustment, device| {
            adjustment.with_cdi_device(device)
        });
        Ok(adjustment.into())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let socket = std::env::args().nth(1).context("SOCKET is missing")?;
    let service = Service::builder(10, "device-injector").socket(socket);
    let mut service = service.start(Injector)?;
    service.state().wait_for(State::is_registered).await?;
    writeln!(std::io::stdout().lock(), "registered")?;
    Err(service.ended().await.into())
}
