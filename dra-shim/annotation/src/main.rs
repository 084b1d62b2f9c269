//! `imex-annotation`: an NRI plugin that gives pods IMEX channels by annotation.
//!
//! Started by hand, by systemd, as a pod, or by the runtime itself (then the list is its
//! configuration, `/etc/nri/conf.d/50-imex-annotation.conf`).

#![forbid(unsafe_code)]

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use compute_domain_node::error_chain;
use durable_file::OsDir;
use imex_annotation::{Allowed, Annotations, Paths, RECORDS_DIR, Records};
use imex_cdi::{DRIVER_PARAMS, PROC_DEVICES};
use nri_plugin::{Late, Service};
use tokio::signal::unix::{SignalKind, signal};
use tracing::error;

/// Before the plugins that judge containers (90).
const INDEX: u8 = 50;
const NAME: &str = "imex-annotation";

/// Gives pods with the annotation imex-dra/channel the IMEX channel that it names.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Channels that pods of a namespace may have, such as team-a=1,8-15. Repeatable. Without
    /// any, or a configuration from the runtime, no pod gets a channel.
    #[arg(long, value_name = "NAMESPACE=CHANNELS")]
    allow: Vec<String>,
    /// The runtime's socket of NRI.
    #[arg(long, value_name = "PATH", default_value = "/var/run/nri/nri.sock")]
    nri_socket: PathBuf,
    /// Where the pods that have a channel are recorded; on a tmpfs.
    #[arg(long, value_name = "DIR", default_value = RECORDS_DIR)]
    records: PathBuf,
    /// The checkpoint of the kubelet plugin, if there is one: its claims' channels are taken.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/var/lib/kubelet/plugins/compute-domain.nvidia.com/checkpoint.json"
    )]
    checkpoint: PathBuf,
    /// The list of drivers' majors.
    #[arg(long, value_name = "FILE", default_value = PROC_DEVICES)]
    proc_devices: PathBuf,
    /// The driver's options: a channel that it does not have is refused.
    #[arg(long, value_name = "FILE", default_value = DRIVER_PARAMS)]
    driver_params: PathBuf,
}

fn main() -> ExitCode {
    let args = Args::parse();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            error!("{}", error_chain(&*failed));
            ExitCode::FAILURE
        }
    }
}

/// One thread: a node has few containers to create at a time, and the disk has threads of its own.
#[tokio::main(flavor = "current_thread")]
async fn run(args: Args) -> Result<(), Box<dyn Error>> {
    let Args {
        allow,
        nri_socket,
        records,
        checkpoint,
        proc_devices,
        driver_params,
    } = args;
    let allowed: Allowed = allow.join("\n").parse()?;
    let records = Records::new(Arc::new(OsDir::create(records, 0o755)?));
    let paths = Paths {
        proc_devices,
        driver_params,
        checkpoint,
    };
    let plugin = Annotations::new(allowed, paths, records);
    let mut terminate = signal(SignalKind::terminate())?;
    // A container that starts without its channel would fail later, and without a reason.
    let builder = Service::builder(INDEX, NAME)
        .socket(nri_socket)
        .on_late(Late::Refuse);
    let mut service = builder.start(plugin)?;
    tokio::select! {
        error = service.ended() => return Err(error.into()),
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    service.shutdown().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_reference_has_every_option() {
        let text = reference::program_page(Args::command());
        reference::assert_page("imex-annotation.md", env!("CARGO_PKG_NAME"), &text);
    }
}
