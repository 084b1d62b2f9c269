//! What NVML has of the GPUs, read in processes of their own.

use std::thread;
use std::time::{Duration, Instant};

use nvml_session::{DriverRoot, Fact, Failure, NvmlProcess, Property, Query, SessionProgram};
use serde::de::DeserializeOwned;

use crate::facts::{DriverFacts, GpuFacts, MigFacts, MigProfile};
use crate::pci_address::PciAddress;

/// The indices of GPU instance profiles in `nvml.h`: `NVML_GPU_INSTANCE_PROFILE_COUNT`.
const PROFILES: u32 = 18;

/// Largest number of MIG devices of a GPU that is plausible; today's GPUs have 7.
const MAX_MIG_DEVICES: u32 = 64;

/// Starts processes with a session.
pub(crate) struct NvmlReader<'a> {
    pub(crate) program: &'a SessionProgram,
    pub(crate) root: &'a DriverRoot,
    /// The time for one call, and for all calls on one GPU.
    pub(crate) deadline: Duration,
    /// When everything ends.
    pub(crate) until: Instant,
}

/// The GPU that is being read.
struct GpuReader<'a> {
    process: &'a mut NvmlProcess,
    index: u32,
    began: Instant,
    deadline: Duration,
}

// === impl NvmlReader ===

impl NvmlReader<'_> {
    /// Reads the GPUs one after the other in one process. After a GPU that ends the process or takes too long, each
    /// of the others is read in a process of its own, at the same time: so all take little longer than one.
    // req: GPU-2
    pub(crate) fn read(&self) -> (DriverFacts, Vec<GpuFacts>) {
        let began = Instant::now();
        let mut process = match self.open() {
            Ok(process) => process,
            Err(failure) => return (unreadable(failure), Vec::new()),
        };
        let gpu_count: Fact<u32> = process.ask(Query::DeviceCount);
        let count = gpu_count.known().copied().unwrap_or(0);
        let mut gpus = Vec::new();
        for index in 0..count {
            if process.ended().is_some() || began.elapsed() > self.deadline {
                gpus.extend(self.read_separately(index..count));
                break;
            }
            gpus.push(self.read_gpu(&mut process, index));
        }
        (self.read_driver(process, gpu_count), gpus)
    }

    fn open(&self) -> Result<NvmlProcess, Failure> {
        NvmlProcess::open(&self.program.until(self.until), self.root)
    }

    /// The versions, after the GPUs: a call that ends the process costs no GPU.
    fn read_driver(&self, mut process: NvmlProcess, gpu_count: Fact<u32>) -> DriverFacts {
        if process.ended().is_some() {
            match self.open() {
                Ok(next) => process = next,
                Err(failure) => {
                    return DriverFacts {
                        gpu_count,
                        ..unreadable(failure)
                    };
                }
            }
        }
        DriverFacts {
            module: Fact::Absent,
            nvml: process.ask(Query::DriverVersion),
            cuda: process.ask(Query::CudaVersion),
            gpu_count,
        }
    }

    fn read_separately(&self, indices: std::ops::Range<u32>) -> Vec<GpuFacts> {
        let read = |index| match self.open() {
            Ok(mut process) => self.read_gpu(&mut process, index),
            Err(failure) => unreadable_gpu(index, &failure),
        };
        thread::scope(|scope| {
            let started: Vec<_> = indices
                .map(|index| (index, scope.spawn(move || read(index))))
                .collect();
            let joined = started.into_iter().map(|(index, thread)| {
                let panicked = || Failure::new("the read", "panicked");
                thread
                    .join()
                    .unwrap_or_else(|_| unreadable_gpu(index, &panicked()))
            });
            joined.collect()
        })
    }

    fn read_gpu(&self, process: &mut NvmlProcess, index: u32) -> GpuFacts {
        let mut gpu = GpuReader {
            process,
            index,
            began: Instant::now(),
            deadline: self.deadline,
        };
        GpuFacts {
            index: Fact::Known(index),
            pci: gpu.pci(),
            uuid: gpu.ask(Property::Uuid),
            minor: gpu.ask(Property::Minor),
            name: gpu.ask(Property::Name),
            brand: gpu.ask(Property::Brand),
            architecture: gpu.ask(Property::Architecture),
            compute_capability: gpu.ask(Property::ComputeCapability),
            memory: gpu.ask(Property::Memory),
            addressing_mode: gpu.ask(Property::AddressingMode),
            module_id: gpu.ask(Property::ModuleId),
            virtualization_mode: gpu.ask(Property::VirtualizationMode),
            persistence_mode: gpu.ask(Property::PersistenceMode),
            compute_mode: gpu.ask(Property::ComputeMode),
            recovery_action: gpu.ask(Property::RecoveryAction),
            mig: gpu.mig(),
            ..GpuFacts::default()
        }
    }
}

// === impl GpuReader ===

impl GpuReader<'_> {
    fn ask<T: DeserializeOwned>(&mut self, property: Property) -> Fact<T> {
        if self.process.ended().is_none() && self.began.elapsed() > self.deadline {
            let seconds = self.deadline.as_secs_f32();
            let reason = format!(
                "was not called, because the calls on this GPU before it took more than {seconds} s"
            );
            return Fact::Failed(Failure::new(property.call(), reason));
        }
        self.process.ask(Query::Gpu(self.index, property))
    }

    fn pci(&mut self) -> Fact<PciAddress> {
        let call = Property::PciAddress.call();
        self.ask::<String>(Property::PciAddress)
            .and_then(|text| match text.parse() {
                Ok(address) => Fact::Known(address),
                Err(error) => Fact::Failed(Failure::new(call, format!("returned: {error}"))),
            })
    }

    fn mig(&mut self) -> Fact<MigFacts> {
        let mode = self.ask::<(bool, bool)>(Property::MigMode);
        mode.map(|(enabled, pending)| MigFacts {
            enabled,
            pending,
            profiles: self.profiles(),
            devices: if enabled { self.devices() } else { Vec::new() },
        })
    }

    fn profiles(&mut self) -> Fact<Vec<MigProfile>> {
        let mut profiles = Vec::new();
        for index in 0..PROFILES {
            match self.ask(Property::GpuInstanceProfile(index)) {
                Fact::Known(info) => profiles.push(MigProfile { index, info }),
                Fact::Absent => {}
                Fact::Failed(failure) => return Fact::Failed(failure),
            }
        }
        Fact::Known(profiles)
    }

    /// By index, up to the last one.
    fn devices(&mut self) -> Vec<Fact<nvml_session::MigDevice>> {
        let count = match self.ask::<u32>(Property::MaxMigDevices) {
            Fact::Known(count) => count.min(MAX_MIG_DEVICES),
            Fact::Absent => 0,
            Fact::Failed(failure) => return vec![Fact::Failed(failure)],
        };
        let devices = (0..count).map(|index| self.ask(Property::MigDevice(index)));
        let mut devices: Vec<_> = devices.collect();
        let last = devices.iter().rposition(|device| *device != Fact::Absent);
        devices.truncate(last.map_or(0, |last| last + 1));
        devices
    }
}

/// The driver's facts if NVML cannot be used at all.
pub(crate) fn unreadable(failure: Failure) -> DriverFacts {
    DriverFacts {
        module: Fact::Absent,
        nvml: Fact::Failed(failure.clone()),
        cuda: Fact::Failed(failure.clone()),
        gpu_count: Fact::Failed(failure),
    }
}

/// A GPU for which NVML has only the index.
fn unreadable_gpu(index: u32, failure: &Failure) -> GpuFacts {
    fn failed<T>(failure: &Failure) -> Fact<T> {
        Fact::Failed(failure.clone())
    }
    GpuFacts {
        index: Fact::Known(index),
        pci: failed(failure),
        uuid: failed(failure),
        name: failed(failure),
        minor: failed(failure),
        brand: failed(failure),
        architecture: failed(failure),
        compute_capability: failed(failure),
        memory: failed(failure),
        addressing_mode: failed(failure),
        module_id: failed(failure),
        virtualization_mode: failed(failure),
        persistence_mode: failed(failure),
        compute_mode: failed(failure),
        recovery_action: failed(failure),
        mig: failed(failure),
        ..GpuFacts::default()
    }
}
