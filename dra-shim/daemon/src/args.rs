//! The command line.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use compute_domain_api::driver_managed::IMEXD_DIR;
use daemon_runtime::{HttpArgs, KubeArgs, LogArgs};

use crate::certificates::Directories;

/// Runs nvidia-imex on this node, with the nodes of its NVLink clique as peers.
#[derive(Debug, Parser)]
#[command(name = "compute-domain-daemon", version)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Name of this node.
    #[arg(long, env = "NODE_NAME")]
    pub(crate) node_name: String,
    #[command(flatten)]
    pub(crate) pod: PodArgs,
    #[command(flatten)]
    pub(crate) paths: PathArgs,
    #[command(flatten)]
    pub(crate) imex: ImexArgs,
    #[command(flatten)]
    pub(crate) kube: KubeArgs,
    #[command(flatten)]
    pub(crate) http: HttpArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

/// The subcommand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Subcommand)]
pub(crate) enum Command {
    /// Run the daemon (default).
    Run,
    /// Check whether the daemon of this container is ready: exit code 0, or 1 with the reason.
    Check,
}

/// The daemon's pod.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Pod")]
#[expect(
    clippy::struct_field_names,
    reason = "the fields have the names of the flags"
)]
pub(crate) struct PodArgs {
    /// Name of this pod.
    #[arg(long, env = "POD_NAME")]
    pub(crate) pod_name: String,
    /// Namespace of this pod and of the cliques' objects.
    #[arg(long, env = "POD_NAMESPACE")]
    pub(crate) pod_namespace: String,
    /// UID of this pod.
    #[arg(long, env = "POD_UID")]
    pub(crate) pod_uid: String,
    /// IP address of this pod, to which the other members connect.
    #[arg(long, env = "POD_IP")]
    pub(crate) pod_ip: IpAddr,
}

/// Paths of files.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Paths")]
pub(crate) struct PathArgs {
    /// Path of the NVIDIA driver's root, or of the host's root, in this container.
    #[arg(long, env = "DRIVER_ROOT_CTR_PATH", default_value = "/driver-root")]
    pub(crate) container_driver_root: PathBuf,
    /// Directory of nvidia-imex's files. The kubelet plugin uses the same path.
    #[arg(long, env = "IMEXD_DIR", default_value = IMEXD_DIR)]
    pub(crate) imexd_dir: PathBuf,
    /// The hosts file of this container.
    #[arg(long, env = "HOSTS_FILE", default_value = "/etc/hosts")]
    pub(crate) hosts_file: PathBuf,
}

/// Options of nvidia-imex.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "nvidia-imex")]
#[expect(
    clippy::struct_field_names,
    reason = "the fields have the names of the flags"
)]
pub(crate) struct ImexArgs {
    /// Port on which the members of a clique listen for each other.
    #[arg(long, env = "IMEX_PORT", default_value_t = 50000)]
    pub(crate) imex_port: u16,
    /// Command port on this pod's loopback interface.
    #[arg(long, env = "IMEX_COMMAND_PORT", default_value_t = 50005)]
    pub(crate) imex_command_port: u16,
    /// Timeout in seconds of a query to nvidia-imex. After two timeouts, nvidia-imex counts as hanging.
    #[arg(long, env = "IMEX_QUERY_TIMEOUT", default_value = "5", value_parser = parse_seconds)]
    pub(crate) imex_query_timeout: Duration,
    /// Directory with the files tls.crt, tls.key and ca.crt of a Secret, for mutual TLS between the members. Without
    /// it, the members connect without encryption.
    #[arg(long, env = "IMEX_TLS_DIR")]
    imex_tls_dir: Option<PathBuf>,
    /// In-memory directory for the copies that nvidia-imex reads.
    #[arg(long, env = "IMEX_TLS_COPIES", default_value = "/run/imex-dra/tls")]
    imex_tls_copies: PathBuf,
    /// Name that every member's certificate must be valid for.
    #[arg(long, env = "IMEX_TLS_NAME", default_value = "compute-domain-daemon")]
    imex_tls_name: String,
}

// === impl ImexArgs ===

impl ImexArgs {
    /// The certificates' directories, if the members connect by mutual TLS.
    pub(crate) fn tls(&self) -> Option<Directories> {
        Some(Directories {
            source: self.imex_tls_dir.clone()?,
            copies: self.imex_tls_copies.clone(),
            name: self.imex_tls_name.clone(),
        })
    }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "must be a number of seconds")?;
    if !(0.1..=60.0).contains(&seconds) {
        return Err("must be from 0.1 to 60 seconds".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_reference_has_every_option() {
        let text = reference::program_page(Args::command());
        reference::assert_page("compute-domain-daemon.md", env!("CARGO_PKG_NAME"), &text);
    }
}
