//! The command line. Flags and environment variables that the Go driver has, too, have its names.

use std::path::PathBuf;

use clap::Parser;
use daemon_runtime::{HttpArgs, KubeArgs, KubeletPaths, LogArgs, StartError};
use gpu_api::names::DRIVER_NAME;
use gpu_api::{ConsumableShares, FeatureGates};

/// Gives pods GPUs through Dynamic Resource Allocation.
#[derive(Debug, Parser)]
#[command(name = "gpu-kubelet-plugin", version)]
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
    pub(crate) settings: SettingArgs,
    #[command(flatten)]
    pub(crate) kube: KubeArgs,
    #[command(flatten)]
    pub(crate) http: HttpArgs,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

/// What claims may ask for.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Settings")]
pub(crate) struct SettingArgs {
    /// Feature gates: NAME=true,NAME=false.
    #[arg(long, env = "FEATURE_GATES", default_value = "")]
    feature_gates: String,
    /// Whether claims share devices: disabled, memory, unlimited or a number of claims. All but disabled have a
    /// feature gate.
    #[arg(long, env = "CONSUMABLE_SHARES", default_value = "disabled")]
    consumable_shares: String,
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
    /// Root of the NVIDIA driver on the host: the runtime mounts files from there.
    #[arg(
        long,
        env = "NVIDIA_DRIVER_ROOT",
        alias = "host_driver-root",
        default_value = "/"
    )]
    nvidia_driver_root: String,
    /// Mount point of the NVIDIA driver's root in this container.
    #[arg(long, env = "DRIVER_ROOT_CTR_PATH", default_value = "/driver-root")]
    container_driver_root: PathBuf,
    /// The program nvidia-cdi-hook on the host; empty: the plugin copies its own to its data directory.
    #[arg(long, env = "NVIDIA_CDI_HOOK_PATH", default_value = "")]
    nvidia_cdi_hook_path: String,
    /// The directory to read instead of /proc, for a host that is a directory.
    #[arg(long, env = "GPU_PROC_PATH", default_value = "/proc")]
    gpu_proc_path: PathBuf,
    /// The directory to read instead of /sys, for a host that is a directory.
    #[arg(long, env = "GPU_SYS_PATH", default_value = "/sys")]
    gpu_sys_path: PathBuf,
}

/// The resolved paths: flags, and the defaults derived from them.
#[derive(Debug, Clone)]
pub(crate) struct Paths {
    pub(crate) registry_dir: PathBuf,
    /// Checkpoint, lock, service socket and hook.
    pub(crate) data_dir: PathBuf,
    pub(crate) cdi_root: PathBuf,
    /// The driver's root in this container.
    pub(crate) driver_root: PathBuf,
    /// The driver's root on the host.
    pub(crate) host_driver_root: String,
    /// The hook on the host; `None`: a copy in the data directory.
    pub(crate) hook: Option<PathBuf>,
    pub(crate) proc: PathBuf,
    pub(crate) sys: PathBuf,
}

// === impl SettingArgs ===

impl SettingArgs {
    /// The feature gates, and whether claims share devices.
    ///
    /// # Errors
    /// An unknown gate or value, or a value whose gate is off.
    // req: GPU-19, GPU-37
    pub(crate) fn resolve(&self) -> Result<(FeatureGates, ConsumableShares), StartError> {
        let gates: FeatureGates = self
            .feature_gates
            .parse()
            .map_err(|error: gpu_api::GateError| StartError::new(&error, error.hint()))?;
        let shares = ConsumableShares::resolve(&self.consumable_shares, &gates)
            .map_err(|error| StartError::new(&error, error.hint()))?;
        Ok((gates, shares))
    }
}

// === impl PathArgs ===

impl PathArgs {
    pub(crate) fn resolve(self) -> Paths {
        let hook = self.nvidia_cdi_hook_path;
        Paths {
            registry_dir: self.kubelet.registry_dir(),
            data_dir: self.kubelet.data_dir(DRIVER_NAME),
            cdi_root: self.cdi_root,
            driver_root: self.container_driver_root,
            host_driver_root: self.nvidia_driver_root,
            hook: (!hook.is_empty()).then(|| hook.into()),
            proc: self.gpu_proc_path,
            sys: self.gpu_sys_path,
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
        let page = "gpu-kubelet-plugin.md";
        reference::assert_page(page, env!("CARGO_PKG_NAME"), &text);
    }

    fn settings(args: &[&str]) -> Result<(FeatureGates, ConsumableShares), StartError> {
        let args = [&["x", "--node-name=n"], args].concat();
        let args = Args::try_parse_from(args).unwrap();
        args.settings.resolve()
    }

    // req: GPU-37
    #[test]
    fn settings_that_are_not_supported_end_the_start() {
        settings(&[]).unwrap();
        settings(&["--feature-gates=TimeSlicingSettings=true,"]).unwrap();
        let memory = [
            "--consumable-shares=memory",
            "--feature-gates=ConsumableShares=true",
        ];
        assert_eq!(settings(&memory).unwrap().1, ConsumableShares::Memory);
        for args in [
            &["--feature-gates=NoSuchGate=true"][..],
            &["--consumable-shares=memory"],
            &["--consumable-shares=many"],
        ] {
            assert!(settings(args).is_err(), "{args:?}");
        }
    }

    #[test]
    fn directories_are_those_of_kubelet_unless_set() {
        let paths = |args: &[&str]| {
            let args = [&["x", "--node-name=n"], args].concat();
            Args::try_parse_from(args).unwrap().paths.resolve()
        };
        let default = paths(&["--nvidia-cdi-hook-path="]);
        assert_eq!(
            default.data_dir,
            PathBuf::from("/var/lib/kubelet/plugins/gpu.nvidia.com")
        );
        assert_eq!(default.hook, None);
        let own = paths(&[
            "--kubelet-plugins-directory-path=/p",
            "--nvidia-cdi-hook-path=/h",
        ]);
        assert_eq!(own.data_dir, PathBuf::from("/p/gpu.nvidia.com"));
        assert_eq!(own.hook, Some("/h".into()));
    }
}
