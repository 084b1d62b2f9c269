//! An NRI plugin that gives containers the devices in their pod's annotations: `injector SOCKET INDEX`.
//! It prints `registered`, and ends when its standard input is closed.
//!
//! | annotation | effect |
//! |---|---|
//! | `cdi-devices.noderesource.dev/container.NAME`: a YAML list | CDI devices for the container NAME, as by containerd's `device-injector` |
//! | `injector.example.com/cdi: DEVICE` | a CDI device for each container, by an annotation that no other program uses |
//! | `injector.example.com/node: MAJOR:MINOR` | the device node `/dev/injected` for each container |

use std::io::Write as _;

use anyhow::{Context as _, Result};
use nri_plugin::api::{
    Container, ContainerAdjustment, LinuxContainerAdjustment, LinuxDevice, PodSandbox,
};
use nri_plugin::{Context, Creation, Events, Plugin, Refusal, Service, State};
use tokio::io::AsyncReadExt as _;

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
        let asked = |key: &str| pod.annotations.get(key).map_or("", String::as_str);
        let list = asked(&format!(
            "cdi-devices.noderesource.dev/container.{}",
            container.name
        ));
        let devices = list.lines().filter_map(|line| line.strip_prefix("- "));
        let own = Some(asked("injector.example.com/cdi")).filter(|it| !it.is_empty());
        let devices = devices.chain(own);
        let mut adjustment = devices.fold(ContainerAdjustment::default(), |adjustment, device| {
            adjustment.with_cdi_device(device)
        });
        let node = asked("injector.example.com/node");
        if !node.is_empty() {
            let device = device(node).map_err(|error| Refusal::new(error.to_string()))?;
            adjustment.linux = Some(LinuxContainerAdjustment {
                devices: vec![device],
                ..Default::default()
            });
        }
        Ok(adjustment.into())
    }
}

fn device(numbers: &str) -> Result<LinuxDevice> {
    let (major, minor) = numbers.split_once(':').context("not MAJOR:MINOR")?;
    Ok(LinuxDevice {
        path: "/dev/injected".to_owned(),
        r#type: "c".to_owned(),
        major: major.parse()?,
        minor: minor.parse()?,
        ..Default::default()
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let mut arguments = std::env::args().skip(1);
    let (Some(socket), Some(index)) = (arguments.next(), arguments.next()) else {
        anyhow::bail!("usage: injector SOCKET INDEX");
    };
    let service = Service::builder(index.parse()?, "injector").socket(socket);
    let service = service.start(Injector)?;
    let mut state = service.state();
    state.wait_for(State::is_registered).await?;
    writeln!(std::io::stdout(), "registered")?;
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    service.shutdown().await;
    Ok(())
}
