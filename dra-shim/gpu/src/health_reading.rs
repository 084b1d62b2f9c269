//! What a reading of the GPUs says about their health.

use std::time::SystemTime;

use gpu_inventory::{Fact, GpuFacts, Inventory};

use crate::health::{GpuReading, Millis};
use crate::health_store::DriverLoad;

/// What a reading of the GPUs says about their health.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HealthReading {
    /// When the reading began.
    pub(crate) begun_at: Millis,
    pub(crate) load: DriverLoad,
    /// The GPUs with a UUID; empty if NVML cannot be used.
    pub(crate) gpus: Vec<GpuReading>,
    /// Whether these are all GPUs.
    pub(crate) is_complete: bool,
}

// === impl HealthReading ===

impl HealthReading {
    /// `module` is the inode of the loaded module's directory.
    pub(crate) fn new(inventory: &Inventory, module: Option<u64>, begun_at: Millis) -> Self {
        let can_be_used = inventory.driver.gpu_count.known().is_some();
        let gpus = inventory.gpus.iter().filter(|_| can_be_used);
        let gpus: Vec<_> = gpus.filter_map(gpu_reading).collect();
        Self {
            begun_at,
            load: DriverLoad {
                boot: inventory.host.boot_id.known().cloned(),
                module,
            },
            is_complete: can_be_used && gpus.len() == inventory.gpus.len(),
            gpus,
        }
    }
}

fn gpu_reading(gpu: &GpuFacts) -> Option<GpuReading> {
    let instances = match &gpu.mig {
        Fact::Failed(_) => None,
        Fact::Absent => Some(Vec::new()),
        Fact::Known(mig) => {
            let devices = mig.devices.iter().filter(|it| !matches!(it, Fact::Absent));
            let ids = devices.map(|device| {
                let device = device.known()?;
                Some((device.gpu_instance.id, device.compute_instance))
            });
            ids.collect()
        }
    };
    Some(GpuReading {
        uuid: gpu.uuid.known()?.clone(),
        index: gpu.index.known().copied(),
        action: gpu.recovery_action.clone(),
        instances,
    })
}

/// The time now.
pub(crate) fn now() -> Millis {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    // A clock before 1970 is 1970.
    since.map_or(0, |it| {
        Millis::try_from(it.as_millis()).unwrap_or(Millis::MAX)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(name: &str) -> HealthReading {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/inventory/tests/inventories");
        let text = std::fs::read(format!("{dir}/{name}.json")).unwrap();
        HealthReading::new(&serde_json::from_slice(&text).unwrap(), Some(1), 5)
    }

    #[test]
    fn a_reading_has_each_gpu_with_its_instances() {
        let whole = reading("h100");
        assert!(whole.is_complete);
        assert_eq!(whole.gpus.len(), 8);
        assert_eq!(whole.gpus[0].instances, Some(Vec::new()));
        let mig = reading("h100-mig");
        let ids = mig.gpus[0].instances.as_ref().unwrap();
        assert!(!ids.is_empty());
    }

    #[test]
    fn a_reading_without_nvml_says_nothing() {
        let mut inventory: Inventory = serde_json::from_str("{}").unwrap();
        inventory.gpus = vec![GpuFacts {
            uuid: Fact::Known("GPU-1".to_owned()),
            ..GpuFacts::default()
        }];
        let reading = HealthReading::new(&inventory, None, 0);
        assert_eq!((reading.gpus.len(), reading.is_complete), (0, false));
    }
}
