//! The devices of MIG devices that exist.

use nvml_session::{Fact, MigDevice};

use super::device::{Attribute, Device, MIB, common, with};
use crate::facts::{DriverFacts, GpuFacts, MigFacts};
use crate::mig_profile::{compute_slices, profile_name};

/// More memory slices than a GPU can have: today's have 8.
const MAX_SLICES: u32 = 32;

/// The device of a MIG device, or why it is not published.
// req: GPU-6
pub(super) fn mig_device(
    driver: &DriverFacts,
    gpu: &GpuFacts,
    (minor, gpu_uuid): (u32, &str),
    mig: &MigFacts,
    gpu_memory: u64,
    device: &MigDevice,
) -> Result<Device, String> {
    let MigDevice {
        uuid,
        gpu_instance,
        compute_profile,
        ..
    } = device;
    let id = gpu_instance.profile;
    let profile = match &mig.profiles {
        Fact::Failed(failure) => {
            return Err(format!(
                "MIG device {uuid} has an unknown profile: {failure}"
            ));
        }
        profiles => profiles
            .known()
            .and_then(|all| all.iter().find(|it| it.info.id == id)),
    };
    let profile =
        profile.ok_or_else(|| format!("MIG device {uuid} has the unknown profile {id}"))?;
    let info = profile.info;
    if compute_slices(*compute_profile) != Some(info.slices) {
        return Err(format!(
            "MIG device {uuid} has only a part of its GPU instance {}",
            gpu_instance.id
        ));
    }
    let name = profile_name(profile, gpu_memory);
    let placement = gpu_instance.placement;
    let engines = [
        ("multiprocessors", info.multiprocessors),
        ("copyEngines", info.copy_engines),
        ("decoders", info.decoders),
        ("encoders", info.encoders),
        ("jpegEngines", info.jpeg_engines),
        ("ofaEngines", info.ofa_engines),
    ];
    let engines = engines.map(|(name, number)| (name.to_owned(), number.into()));
    let last = placement
        .start
        .saturating_add(placement.size.min(MAX_SLICES));
    let slices = (placement.start..last).map(|slice| (format!("memorySlice{slice}"), 1));
    let memory = ("memory".to_owned(), info.memory_mib.saturating_mul(MIB));
    Ok(Device {
        name: format!(
            "gpu-{minor}-mig-{}-{}-{}",
            name.replace('.', "").replace('+', "-"),
            info.id,
            placement.start
        ),
        attributes: with(
            common(driver, gpu),
            [
                ("type", Attribute::Text("mig".to_owned())),
                ("uuid", Attribute::Text(uuid.clone())),
                ("parentUUID", Attribute::Text(gpu_uuid.to_owned())),
                ("profile", Attribute::Text(name)),
            ],
        ),
        capacity: engines.into_iter().chain([memory]).chain(slices).collect(),
    })
}
