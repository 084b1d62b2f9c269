//! A plugin of NRI that comes after the guard, and gives devices to containers whose pod asks for
//! them: `late-plugin SOCKET`. It prints `registered`, and ends when its standard input does.
//!
//! | annotation | what each container of the pod gets |
//! |---|---|
//! | `late.example.com/node: MAJOR:MINOR` | a device node |
//! | `late.example.com/cdi: NAME` | a CDI device |

use std::io::Write as _;

use anyhow::{Context as _, Result};
use nri_plugin::api::{
    CdiDevice, Container, ContainerAdjustment, LinuxContainerAdjustment, LinuxDevice, PodSandbox,
};
use nri_plugin::{Context, Creation, Events, Plugin, Refusal, Service, State};
use tokio::io::AsyncReadExt as _;

/// The guard's is 90.
const INDEX: u8 = 95;

struct Late;

impl Plugin for Late {
    fn events(&self) -> Events {
        Events::CREATE_CONTAINER
    }

    async fn create_container(
        &self,
        _: &Context,
        pod: &PodSandbox,
        _: &Container,
    ) -> Result<Creation, Refusal> {
        let asked = |what: &str| pod.annotations.get(&format!("late.example.com/{what}"));
        let mut adjustment = ContainerAdjustment::default();
        if let Some(numbers) = asked("node") {
            let device = device(numbers).map_err(|error| Refusal::new(error.to_string()))?;
            adjustment.linux = Some(LinuxContainerAdjustment {
                devices: vec![device],
                ..Default::default()
            });
        }
        if let Some(name) = asked("cdi") {
            adjustment.cdi_devices = vec![CdiDevice { name: name.clone() }];
        }
        Ok(adjustment.into())
    }
}

fn device(numbers: &str) -> Result<LinuxDevice> {
    let (major, minor) = numbers.split_once(':').context("not MAJOR:MINOR")?;
    Ok(LinuxDevice {
        path: "/dev/late".to_owned(),
        r#type: "c".to_owned(),
        major: major.parse()?,
        minor: minor.parse()?,
        ..Default::default()
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let socket = std::env::args()
        .nth(1)
        .context("usage: late-plugin SOCKET")?;
    let service = Service::builder(INDEX, "late").socket(socket).start(Late)?;
    let mut state = service.state();
    state.wait_for(State::is_registered).await?;
    writeln!(std::io::stdout(), "registered")?;
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    service.shutdown().await;
    Ok(())
}
