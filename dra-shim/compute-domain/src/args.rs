//! The command line. Flags and environment variables that the Go driver has, too,
//! have its names.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Parser;
use compute_domain_api::driver_managed::IMEXD_DIR;
use compute_domain_api::names::DRIVER_NAME;
use daemon_runtime::{HttpArgs, ImexArgs, KubeArgs, KubeletPaths, LogArgs};

use crate::nri_guard::Mode;

/// Gives pods IMEX channels through Dynamic Resource Allocation.
// req: MODE-10
#[derive(Debug, Parser)]
#[command(name = "compute-domain-kubelet-plugin", version)]
pub(crate) struct Args {
    /// Name of the node that the plugin runs on.
    #[arg(long, env = "NODE_NAME")]
    pub(crate) node_name: String,
    #[command(flatten)]
    pub(crate) paths: PathArgs,
    /// Port of /livez and /readyz; -1: none, 0: any free port.
    #[arg(long, env = "HEALTHCHECK_PORT", default_value_t = -1, allow_negative_numbers = true)]
    pub(crate) healthcheck_port: i32,
    #[command(flatten)]
    pub(crate) imex: ImexArgs,
    #[command(flatten)]
    pub(crate) nri: NriArgs,
    #[command(flatten)]
    pub(crate) kube: KubeArgs,
    #[command(flatten)]
    pub(crate) http: HttpArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

/// Files and directories. An empty value means unset.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Paths")]
pub(crate) struct PathArgs {
    #[command(flatten)]
    kubelet: KubeletPaths,
    /// Directory of CDI specs that the container runtime reads.
    #[arg(long, env = "CDI_ROOT", default_value = "/etc/cdi")]
    cdi_root: PathBuf,
    /// Mount point of the NVIDIA driver's root in this container.
    #[arg(long, env = "DRIVER_ROOT_CTR_PATH", default_value = "/driver-root")]
    container_driver_root: PathBuf,
    /// Mount point of the host's root in this container; only for imex.hostSocketPath.
    #[arg(long, env = "HOST_ROOT_CTR_PATH", default_value = "/host-root")]
    container_host_root: PathBuf,
    /// Directory of this node's IMEX daemon; only for the driver-managed mode.
    #[arg(long, env = "IMEXD_DIR", default_value = IMEXD_DIR)]
    imexd_dir: PathBuf,
    /// File to read instead of /proc/devices; empty: /proc/devices.
    #[arg(long, env = "ALT_PROC_DEVICES_PATH", default_value = "")]
    alt_proc_devices_path: String,
}

/// The NRI guard warns about containers that request an IMEX channel without a claim, or refuses them.
// req: NRI-11
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "NRI guard")]
pub(crate) struct NriArgs {
    /// off, warn or enforce; empty: off.
    #[arg(long, env = "NRI_GUARD_MODE", default_value = "off")]
    pub(crate) nri_guard_mode: Mode,
    /// Namespaces that the guard ignores: NAME,NAME.
    #[arg(long, env = "NRI_GUARD_EXEMPT_NAMESPACES", default_value = "")]
    nri_guard_exempt_namespaces: String,
    /// Where the host's CDI directories are mounted in this container: DIRECTORY,DIRECTORY.
    #[arg(
        long,
        env = "NRI_GUARD_CDI_DIRECTORIES",
        default_value = "/etc/cdi,/var/run/cdi",
        value_delimiter = ','
    )]
    pub(crate) nri_guard_cdi_directories: Vec<PathBuf>,
    /// Namespace of the plugin's own pods, which get no warnings about being privileged.
    #[arg(long, env = "NAMESPACE", default_value = "")]
    pub(crate) namespace: String,
    /// NRI socket of the container runtime.
    #[arg(long, env = "NRI_SOCKET", default_value = "/var/run/nri/nri.sock")]
    pub(crate) nri_socket: PathBuf,
}

/// The resolved paths: flags, and the defaults derived from them.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    pub(crate) registry_dir: PathBuf,
    /// Checkpoint, lock and service socket.
    pub(crate) data_dir: PathBuf,
    pub(crate) cdi_root: PathBuf,
    pub(crate) driver_root: PathBuf,
    pub(crate) host_root: PathBuf,
    pub(crate) imexd_dir: PathBuf,
    pub(crate) proc_devices: PathBuf,
}

// === impl NriArgs ===

impl NriArgs {
    pub(crate) fn exempt_namespaces(&self) -> BTreeSet<String> {
        let names = self.nri_guard_exempt_namespaces.split(',').map(str::trim);
        let names = names.filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    }
}

// === impl PathArgs ===

impl PathArgs {
    pub(crate) fn resolve(self) -> Paths {
        Paths {
            registry_dir: self.kubelet.registry_dir(),
            data_dir: self.kubelet.data_dir(DRIVER_NAME),
            cdi_root: self.cdi_root,
            driver_root: self.container_driver_root,
            host_root: self.container_host_root,
            imexd_dir: self.imexd_dir,
            proc_devices: match self.alt_proc_devices_path {
                path if path.is_empty() => imex_cdi::PROC_DEVICES.into(),
                path => path.into(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_reference_has_every_option() {
        let text = reference::program_page(Args::command());
        let page = "compute-domain-kubelet-plugin.md";
        reference::assert_page(page, env!("CARGO_PKG_NAME"), &text);
    }

    fn paths(args: &[&str]) -> Paths {
        Args::parse_from([&["x", "--node-name=n"], args].concat())
            .paths
            .resolve()
    }

    #[test]
    fn registry_and_data_follow_from_the_kubelet_root() {
        let paths = paths(&["--kubelet-root=/var/snap/kubelet"]);
        assert_eq!(
            paths.registry_dir,
            PathBuf::from("/var/snap/kubelet/plugins_registry")
        );
        assert_eq!(
            paths.data_dir,
            PathBuf::from("/var/snap/kubelet/plugins/compute-domain.nvidia.com")
        );
    }

    // req: NRI-11
    #[test]
    fn the_guard_is_off_by_default() {
        let nri = |args: &[&str]| {
            let args = [&["x", "--node-name=n"], args].concat();
            Args::try_parse_from(args).map(|args| args.nri)
        };
        assert_eq!(nri(&[]).unwrap().nri_guard_mode, Mode::Off);
        assert_eq!(
            nri(&["--nri-guard-mode="]).unwrap().nri_guard_mode,
            Mode::Off
        );
        assert!(nri(&[]).unwrap().exempt_namespaces().is_empty());
        let on = nri(&[
            "--nri-guard-mode=enforce",
            "--nri-guard-exempt-namespaces=a, b,",
        ])
        .unwrap();
        assert_eq!(on.nri_guard_mode, Mode::Enforce);
        assert_eq!(on.exempt_namespaces(), ["a", "b"].map(str::to_owned).into());
        assert!(nri(&["--nri-guard-mode=on"]).is_err());
    }

    // req: MODE-10
    #[test]
    fn directory_flags_of_the_go_driver_override_the_root_unless_empty() {
        let paths = paths(&[
            "--kubelet-registrar-directory-path=/r",
            "--kubelet-plugins-directory-path=",
            "--alt-proc-devices-path=",
        ]);
        assert_eq!(paths.registry_dir, PathBuf::from("/r"));
        assert_eq!(
            paths.data_dir,
            PathBuf::from("/var/lib/kubelet/plugins/compute-domain.nvidia.com")
        );
        assert_eq!(paths.proc_devices, PathBuf::from("/proc/devices"));
    }
}
