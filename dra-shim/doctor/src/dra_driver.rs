//! The DRA drivers whose claims a node may have. This project and NVIDIA have a kubelet plugin for
//! each.

use compute_domain_api::names::DRIVER_NAME as COMPUTE_DOMAIN;
use dra_checkpoint::{ABORTED_FILE, CHECKPOINT_FILE};
use gpu_api::names::DRIVER_NAME as GPU;
use imex_cdi::Kind;

/// A DRA driver. Each has its own plugin, plugin directory and CDI kind on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DraDriver {
    /// `compute-domain.nvidia.com`: IMEX channels.
    ComputeDomain,
    /// `gpu.nvidia.com`: GPUs and MIG devices.
    Gpu,
}

// === impl DraDriver ===

impl DraDriver {
    /// All drivers.
    pub const ALL: [Self; 2] = [Self::ComputeDomain, Self::Gpu];

    /// The driver of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|driver| driver.name() == name)
    }

    /// Its name in `ResourceSlices` and allocation results.
    pub fn name(self) -> &'static str {
        match self {
            Self::ComputeDomain => COMPUTE_DOMAIN,
            Self::Gpu => GPU,
        }
    }

    /// The CDI kind of its claims' devices.
    pub fn claim_kind(self) -> Kind {
        match self {
            Self::ComputeDomain => Kind::compute_domain_claim(),
            Self::Gpu => Kind::gpu_claim(),
        }
    }

    /// Its plugin's directory below kubelet's root directory.
    pub fn plugin_dir(self, kubelet_root: &str) -> String {
        format!("{kubelet_root}/plugins/{}", self.name())
    }

    /// Its plugin's checkpoint below kubelet's root directory.
    pub fn checkpoint(self, kubelet_root: &str) -> String {
        format!("{}/{CHECKPOINT_FILE}", self.plugin_dir(kubelet_root))
    }

    /// The file with its plugin's aborted claims below kubelet's root directory, if its checkpoint has
    /// none. Only that of [`Gpu`](Self::Gpu) has none.
    pub fn aborted_file(self, kubelet_root: &str) -> String {
        format!("{}/{ABORTED_FILE}", self.plugin_dir(kubelet_root))
    }

    /// Its plugin's program, in this project and in NVIDIA's.
    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::ComputeDomain => "compute-domain-kubelet-plugin",
            Self::Gpu => "gpu-kubelet-plugin",
        }
    }

    /// Its plugin's container in its pod, in both charts.
    pub(crate) fn container(self) -> &'static str {
        match self {
            Self::ComputeDomain => "compute-domains",
            Self::Gpu => "gpus",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_a_driver_belong_together() {
        for driver in DraDriver::ALL {
            assert_eq!(DraDriver::from_name(driver.name()), Some(driver));
            let vendor = format!("k8s.{}", driver.name());
            assert_eq!(driver.claim_kind().vendor(), vendor);
        }
        assert_eq!(DraDriver::from_name("mig.nvidia.com"), None);
    }
}
