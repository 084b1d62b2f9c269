//! Names of MIG profiles, such as `1g.10gb+me`.

use nvml_session::GpuInstanceProfile;

use crate::facts::MigProfile;

/// The name of a MIG device whose compute instance has all slices of its GPU instance.
///
/// Memory is rounded up to eighths of the GPU's memory, which is `gpu_memory` bytes.
pub(crate) fn profile_name(profile: &MigProfile, gpu_memory: u64) -> String {
    let GpuInstanceProfile {
        slices, memory_mib, ..
    } = profile.info;
    let gigabytes = gigabytes(memory_mib, gpu_memory);
    let suffix = suffix(profile.index);
    format!("{slices}g.{gigabytes}gb{suffix}")
}

/// The number of compute slices of a compute instance's profile; `None` for unknown profiles.
pub(crate) fn compute_slices(profile: u32) -> Option<u32> {
    match profile {
        0 | 7 => Some(1),
        1 => Some(2),
        2 => Some(3),
        3 => Some(4),
        4 | 8 => Some(7),
        5 => Some(8),
        6 => Some(6),
        _ => None,
    }
}

/// What distinguishes profiles of equal size: media engines, graphics.
fn suffix(index: u32) -> &'static str {
    match index {
        7 | 8 => "+me",
        10..=12 | 17 => "+gfx",
        13 | 14 => "-me",
        15 | 16 => "+me.all",
        _ => "",
    }
}

fn gigabytes(memory_mib: u64, gpu_memory: u64) -> u64 {
    const GIB: u64 = 1 << 30;
    let memory = memory_mib.saturating_mul(1 << 20);
    if gpu_memory == 0 {
        return memory.div_ceil(GIB);
    }
    let eighths = (u128::from(memory) * 8).div_ceil(u128::from(gpu_memory));
    let gigabytes = u128::from(gpu_memory.div_ceil(GIB));
    // Rounded to the nearest.
    u64::try_from((eighths * gigabytes + 4) / 8).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(index: u32, slices: u32, memory_mib: u64, gpu_mib: u64) -> String {
        let info = GpuInstanceProfile {
            id: 0,
            slices,
            instances: 1,
            multiprocessors: 0,
            copy_engines: 0,
            decoders: 0,
            encoders: 0,
            jpeg_engines: 0,
            ofa_engines: 0,
            memory_mib,
        };
        profile_name(&MigProfile { index, info }, gpu_mib << 20)
    }

    #[test]
    fn names_are_those_of_nvidia_smi() {
        // H100 80GB.
        assert_eq!(name(0, 1, 9856, 81559), "1g.10gb");
        assert_eq!(name(7, 1, 9856, 81559), "1g.10gb+me");
        assert_eq!(name(9, 1, 19968, 81559), "1g.20gb");
        assert_eq!(name(1, 2, 19968, 81559), "2g.20gb");
        assert_eq!(name(2, 3, 40320, 81559), "3g.40gb");
        assert_eq!(name(4, 7, 81152, 81559), "7g.80gb");
        // A100 40GB and A30.
        assert_eq!(name(0, 1, 4864, 40960), "1g.5gb");
        assert_eq!(name(0, 1, 5952, 24576), "1g.6gb");
        assert_eq!(name(17, 3, 48512, 97887), "3g.48gb+gfx");
        assert_eq!(name(15, 1, 23552, 97887), "1g.24gb+me.all");
    }

    #[test]
    fn a_gpu_without_memory_still_has_a_name() {
        assert_eq!(name(0, 1, 9856, 0), "1g.10gb");
    }
}
