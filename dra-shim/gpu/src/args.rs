//! The command line. Flags and environment variables that the Go driver has, too, have its names.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use daemon_runtime::{HttpArgs, KubeArgs, KubeletPaths, LogArgs, StartError};
use gpu_api::names::DRIVER_NAME;
use gpu_api::{ConsumableShares, FeatureGates};
use kube::core::Duration as KubeDuration;

use crate::device_plugin::BesideDevicePlugin;
use crate::health::HealthSettings;
use crate::node_state::PublishSettings;

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
    pub(crate) health: HealthArgs,
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
    /// If NVIDIA's device plugin runs on this node, too: report it, or report it and publish no GPU.
    #[arg(long, env = "BESIDE_DEVICE_PLUGIN", value_enum, default_value_t)]
    beside_device_plugin: BesideDevicePlugin,
}

/// The feature gate `NVMLDeviceHealthCheck` enables health checks.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Health checks")]
pub(crate) struct HealthArgs {
    /// XIDs that never keep new claims away from a GPU, such as 94,95. The errors of applications (13, 31, 43, 45, 68, 109)
    /// and XIDs after which the driver requires no recovery do not, either.
    #[arg(long, env = "ADDITIONAL_XIDS_TO_IGNORE", default_value = "", value_parser = parse_xids)]
    additional_xids_to_ignore: Xids,
    /// How long an XID keeps new claims away from a GPU if its driver reports no recovery actions, such as 12h; empty:
    /// until the driver is loaded again.
    #[arg(long, env = "XID_CLEAR_AFTER", default_value = "", value_parser = parse_clear_after)]
    xid_clear_after: ClearAfter,
}

#[derive(Debug, Clone)]
struct Xids(BTreeSet<u64>);

#[derive(Debug, Clone, Copy)]
struct ClearAfter(Option<Duration>);

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
    /// The feature gates, and the settings of what is published.
    ///
    /// # Errors
    /// An unknown gate or value, or a value whose gate is off.
    // req: GPU-19, GPU-37
    pub(crate) fn resolve(&self) -> Result<(FeatureGates, PublishSettings), StartError> {
        let gates: FeatureGates = self
            .feature_gates
            .parse()
            .map_err(|error: gpu_api::GateError| StartError::new(&error, error.hint()))?;
        let shares = ConsumableShares::resolve(&self.consumable_shares, &gates)
            .map_err(|error| StartError::new(&error, error.hint()))?;
        let settings = PublishSettings {
            shares,
            beside_device_plugin: self.beside_device_plugin,
        };
        Ok((gates, settings))
    }
}

// === impl HealthArgs ===

impl HealthArgs {
    pub(crate) fn resolve(self) -> HealthSettings {
        HealthSettings {
            ignored: self.additional_xids_to_ignore.0,
            clear_after: self.xid_clear_after.0,
        }
    }
}

fn parse_xids(text: &str) -> Result<Xids, String> {
    let parts = text.split(',').map(str::trim);
    let xids = parts.filter(|part| !part.is_empty()).map(str::parse);
    let xids: Result<_, _> = xids.collect();
    let xids = xids.map(Xids);
    xids.map_err(|_| "must be numbers of XIDs, separated by commas".to_owned())
}

/// The chart renders an unset value as the empty string.
fn parse_clear_after(text: &str) -> Result<ClearAfter, String> {
    if text.is_empty() {
        return Ok(ClearAfter(None));
    }
    let after = text.parse::<KubeDuration>().ok();
    let after = after.filter(|it| !it.is_negative()).map(Duration::from);
    match after.filter(|it| !it.is_zero()) {
        Some(after) => Ok(ClearAfter(Some(after))),
        None => Err("must be a duration such as 90m or 12h, or empty".to_owned()),
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

    fn settings(args: &[&str]) -> Result<(FeatureGates, PublishSettings), StartError> {
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
        assert_eq!(
            settings(&memory).unwrap().1.shares,
            ConsumableShares::Memory
        );
        for args in [
            &["--feature-gates=NoSuchGate=true"][..],
            &["--consumable-shares=memory"],
            &["--consumable-shares=many"],
        ] {
            assert!(settings(args).is_err(), "{args:?}");
        }
    }

    #[test]
    fn settings_of_health_checks_are_numbers_and_a_duration() {
        let health = |args: &[&str]| {
            let args = [&["x", "--node-name=n"], args].concat();
            Args::try_parse_from(args).map(|it| it.health.resolve())
        };
        let default = health(&[]).unwrap();
        assert_eq!((default.ignored.len(), default.clear_after), (0, None));
        let set = health(&[
            "--additional-xids-to-ignore=94, 95,",
            "--xid-clear-after=90m",
        ]);
        let set = set.unwrap();
        assert_eq!(set.ignored, BTreeSet::from([94, 95]));
        assert_eq!(set.clear_after, Some(Duration::from_secs(5400)));
        for arg in [
            "--additional-xids-to-ignore=94 95",
            "--additional-xids-to-ignore=-1",
            "--xid-clear-after=0s",
            "--xid-clear-after=-1h",
            "--xid-clear-after=soon",
        ] {
            health(&[arg]).unwrap_err();
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
