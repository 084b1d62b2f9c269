//! Random hosts: nothing panics, and every GPU is reported with its address, minor and UUID.

use gpu_inventory::published::published;
use gpu_inventory::{
    Fact, Failure, GpuFacts, GpuInstance, GpuInstanceProfile, Inventory, MigDevice, MigFacts,
    MigProfile, Placement,
};

use crate::host::{GIVE_UP, Host, inventory};

const HOSTS: u64 = 500;

/// A value, no value, or a failure with the code that the mock returns.
fn fact<T>(rng: &mut fastrand::Rng, call: &str, value: T) -> Fact<T> {
    match rng.u32(0..10) {
        0 => Fact::Absent,
        1 => {
            let code = *rng
                .choice(&[1, 2, 4, 10, 15, 16, 17, 19, 999, 777])
                .unwrap();
            let name = nvml_session::NvmlCode(code);
            Fact::Failed(Failure {
                code: Some(code),
                ..Failure::new(call, format!("returned {name}"))
            })
        }
        _ => Fact::Known(value),
    }
}

fn number(rng: &mut fastrand::Rng, call: &str) -> Fact<u32> {
    // Not the value that stands for "nothing was written".
    let most = *rng.choice(&[1, 20, u32::MAX]).unwrap();
    let value = rng.u32(0..most);
    fact(rng, call, value)
}

fn profile(rng: &mut fastrand::Rng, index: u32) -> MigProfile {
    let mut few = || rng.u32(0..9);
    let info = GpuInstanceProfile {
        id: index + 3,
        slices: few(),
        instances: few(),
        multiprocessors: few(),
        copy_engines: few(),
        decoders: few(),
        encoders: few(),
        jpeg_engines: few(),
        ofa_engines: few(),
        memory_mib: few().into(),
    };
    MigProfile { index, info }
}

fn mig(rng: &mut fastrand::Rng) -> MigFacts {
    let indices: Vec<u32> = (0..18).filter(|_| rng.bool()).collect();
    let profiles: Vec<_> = indices.iter().map(|index| profile(rng, *index)).collect();
    let enabled = rng.bool();
    let count = if enabled { rng.u32(0..8) } else { 0 };
    let devices = (0..count).map(|id| {
        // No MIG device has this index, but a later one.
        if id + 1 < count && rng.u32(0..4) == 0 {
            return Fact::Absent;
        }
        Fact::Known(MigDevice {
            uuid: format!("MIG-{}", rng.u64(..)),
            gpu_instance: GpuInstance {
                id,
                profile: rng.u32(0..21),
                placement: Placement {
                    start: rng.u32(0..9),
                    size: if rng.bool() { 1 } else { rng.u32(..) },
                },
            },
            compute_instance: rng.u32(0..3),
            compute_profile: rng.u32(0..10),
        })
    });
    let devices = devices.collect();
    MigFacts {
        enabled,
        pending: rng.bool(),
        devices,
        profiles: Fact::Known(profiles),
    }
}

fn gpu(rng: &mut fastrand::Rng, index: u32) -> GpuFacts {
    let whole = inventory("h100").gpus.swap_remove(index as usize % 8);
    let capability = (rng.u32(0..20), rng.u32(0..20));
    let memory = rng.u64(0..u64::MAX);
    let (persistence, mig) = (rng.bool(), mig(rng));
    GpuFacts {
        index: Fact::Known(index),
        brand: number(rng, "nvmlDeviceGetBrand"),
        architecture: number(rng, "nvmlDeviceGetArchitecture"),
        compute_capability: fact(rng, "nvmlDeviceGetCudaComputeCapability", capability),
        memory: fact(rng, "nvmlDeviceGetMemoryInfo", memory),
        addressing_mode: number(rng, "nvmlDeviceGetAddressingMode"),
        module_id: number(rng, "nvmlDeviceGetModuleId"),
        virtualization_mode: number(rng, "nvmlDeviceGetVirtualizationMode"),
        persistence_mode: fact(rng, "nvmlDeviceGetPersistenceMode", persistence),
        compute_mode: number(rng, "nvmlDeviceGetComputeMode"),
        recovery_action: number(rng, "nvmlDeviceGetFieldValues"),
        mig: fact(rng, "nvmlDeviceGetMigMode", mig),
        ..whole
    }
}

fn random(seed: u64) -> Inventory {
    let mut rng = fastrand::Rng::with_seed(seed);
    let count = rng.u32(0..9);
    let mut inventory = inventory("h100");
    inventory.driver.gpu_count = Fact::Known(count);
    inventory.gpus = (0..count).map(|index| gpu(&mut rng, index)).collect();
    inventory
}

#[test]
fn every_gpu_of_a_random_host_is_reported_with_its_identity() {
    for seed in 0..HOSTS {
        let host = random(seed);
        let read = Host::new(&host).read(GIVE_UP);
        assert_eq!(read, host, "seed {seed}");
        for gpu in &read.gpus {
            assert!(gpu.pci.known().is_some(), "seed {seed}");
            assert!(gpu.minor.known().is_some(), "seed {seed}");
            assert!(gpu.uuid.known().is_some(), "seed {seed}");
        }
        let published = published(&read);
        let mut names: Vec<_> = published.devices.iter().map(|it| &it.name).collect();
        names.sort();
        let gpus = read.gpus.iter().filter(|gpu| match &gpu.mig {
            Fact::Known(mig) => !mig.enabled,
            Fact::Absent => true,
            Fact::Failed(_) => false,
        });
        let whole = names.iter().filter(|name| !name.contains("mig"));
        assert_eq!(whole.count(), gpus.count(), "seed {seed}");
    }
}
