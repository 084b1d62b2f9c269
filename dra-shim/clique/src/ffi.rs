//! The fabric calls that `nvml-wrapper` lacks, on its raw bindings.

#![expect(
    unsafe_code,
    reason = "the wrapper has no fabric call, and a library without nvmlShutdown makes its Drop panic"
)]

use std::mem::{offset_of, size_of};
use std::path::Path;

use nvml_wrapper::Device;
use nvml_wrapper::error::{NvmlError, nvml_sym};
use nvml_wrapper_sys::bindings::{
    NvmlLib, nvmlGpuFabricInfo_t, nvmlGpuFabricInfo_v2_t, nvmlGpuFabricInfo_v3_t, nvmlReturn_t,
};

use crate::nvml::{NvmlCode, NvmlFailure};

/// A GPU's fabric info in the words of NVML, whichever version of it was had.
pub(crate) struct FabricInfo {
    pub(crate) cluster_uuid: [u8; 16],
    pub(crate) status: u32,
    pub(crate) clique_id: u32,
    pub(crate) state: u8,
    /// v2 and newer.
    pub(crate) health_mask: Option<u32>,
    /// v3 and newer.
    pub(crate) health_summary: Option<u8>,
}

const INFO: &str = "nvmlDeviceGetGpuFabricInfo";
const INFO_V: &str = "nvmlDeviceGetGpuFabricInfoV";

// The layouts of nvml.h (R550 and newer). The version word carries the size,
// so a binding that drifted would be refused or, worse, overrun.
const _: () = {
    assert!(size_of::<nvmlGpuFabricInfo_t>() == 28);
    assert!(offset_of!(nvmlGpuFabricInfo_t, status) == 16);
    assert!(offset_of!(nvmlGpuFabricInfo_t, cliqueId) == 20);
    assert!(offset_of!(nvmlGpuFabricInfo_t, state) == 24);
    assert!(size_of::<nvmlGpuFabricInfo_v2_t>() == 36);
    assert!(offset_of!(nvmlGpuFabricInfo_v2_t, clusterUuid) == 4);
    assert!(offset_of!(nvmlGpuFabricInfo_v2_t, status) == 20);
    assert!(offset_of!(nvmlGpuFabricInfo_v2_t, cliqueId) == 24);
    assert!(offset_of!(nvmlGpuFabricInfo_v2_t, state) == 28);
    assert!(offset_of!(nvmlGpuFabricInfo_v2_t, healthMask) == 32);
    assert!(size_of::<nvmlGpuFabricInfo_v3_t>() == 40);
    assert!(offset_of!(nvmlGpuFabricInfo_v3_t, healthMask) == 32);
    assert!(offset_of!(nvmlGpuFabricInfo_v3_t, healthSummary) == 36);
};

/// `NVML_STRUCT_VERSION` of nvml.h: the size, and the version in the top byte.
#[expect(clippy::cast_possible_truncation, reason = "sizes of a few bytes")]
const fn version_word<T>(version: u32) -> u32 {
    size_of::<T>() as u32 | (version << 24)
}

/// Loads the library and nothing more: no function of NVML is called. Keeping
/// the value keeps the library loaded.
pub(crate) fn load(path: &Path) -> Result<NvmlLib, NvmlError> {
    // SAFETY: loading runs the library's initialisers. The path is the
    // driver's own library below the root that the operator named, which is
    // trusted like the driver itself; the bindings resolve its functions by
    // the names and types of nvml.h.
    unsafe { NvmlLib::new(path) }.map_err(NvmlError::from)
}

/// Asks for v3, then v2, then the unversioned info, by what the library has
/// and the driver accepts.
pub(crate) fn fabric_info(device: &Device<'_>, lib: &NvmlLib) -> Result<FabricInfo, NvmlFailure> {
    for ask in [info_v3, info_v2] {
        match ask(device, lib) {
            Err(failure) if is_unknown_form(&failure) => {}
            answer => return answer,
        }
    }
    info_v1(device, lib)
}

/// True if the call itself is unknown to the library or the driver, which says
/// nothing about the GPU.
fn is_unknown_form(failure: &NvmlFailure) -> bool {
    match failure {
        NvmlFailure::SymbolMissing { .. } => true,
        NvmlFailure::Returned { code, .. } => matches!(
            *code,
            NvmlCode::ARGUMENT_VERSION_MISMATCH | NvmlCode::FUNCTION_NOT_FOUND
        ),
        _ => false,
    }
}

fn info_v3(device: &Device<'_>, lib: &NvmlLib) -> Result<FabricInfo, NvmlFailure> {
    let symbol = lib.nvmlDeviceGetGpuFabricInfoV.as_ref();
    let call = nvml_sym(symbol).map_err(|e| NvmlFailure::of_wrapper(INFO_V, e))?;
    let mut info = nvmlGpuFabricInfo_v3_t {
        version: version_word::<nvmlGpuFabricInfo_v3_t>(3),
        clusterUuid: [0; 16],
        status: 0,
        cliqueId: 0,
        state: 0,
        healthMask: 0,
        healthSummary: 0,
    };
    // SAFETY: the handle belongs to the session that `device` borrows, and
    // `lib` is that session's library. NVML writes at most the size in the
    // version word, which is the size of `info`.
    succeeded(INFO_V, unsafe { call(device.handle(), &raw mut info) })?;
    Ok(FabricInfo {
        cluster_uuid: info.clusterUuid,
        status: info.status,
        clique_id: info.cliqueId,
        state: info.state,
        health_mask: Some(info.healthMask),
        health_summary: Some(info.healthSummary),
    })
}

fn info_v2(device: &Device<'_>, lib: &NvmlLib) -> Result<FabricInfo, NvmlFailure> {
    let symbol = lib.nvmlDeviceGetGpuFabricInfoV.as_ref();
    let call = nvml_sym(symbol).map_err(|e| NvmlFailure::of_wrapper(INFO_V, e))?;
    let mut info = nvmlGpuFabricInfo_v2_t {
        version: version_word::<nvmlGpuFabricInfo_v2_t>(2),
        clusterUuid: [0; 16],
        status: 0,
        cliqueId: 0,
        state: 0,
        healthMask: 0,
    };
    // SAFETY: as for v3. The binding's type is v3's, but NVML goes by the
    // version word and writes at most the size in it, which is the size of
    // `info`.
    succeeded(INFO_V, unsafe {
        call(device.handle(), (&raw mut info).cast())
    })?;
    Ok(FabricInfo {
        cluster_uuid: info.clusterUuid,
        status: info.status,
        clique_id: info.cliqueId,
        state: info.state,
        health_mask: Some(info.healthMask),
        health_summary: None,
    })
}

fn info_v1(device: &Device<'_>, lib: &NvmlLib) -> Result<FabricInfo, NvmlFailure> {
    let symbol = lib.nvmlDeviceGetGpuFabricInfo.as_ref();
    let call = nvml_sym(symbol).map_err(|e| NvmlFailure::of_wrapper(INFO, e))?;
    let mut info = nvmlGpuFabricInfo_t {
        clusterUuid: [0; 16],
        status: 0,
        cliqueId: 0,
        state: 0,
    };
    // SAFETY: as for v3; this struct has no version and never changed.
    succeeded(INFO, unsafe { call(device.handle(), &raw mut info) })?;
    Ok(FabricInfo {
        cluster_uuid: info.clusterUuid,
        status: info.status,
        clique_id: info.cliqueId,
        state: info.state,
        health_mask: None,
        health_summary: None,
    })
}

fn succeeded(call: &'static str, returned: nvmlReturn_t) -> Result<(), NvmlFailure> {
    match NvmlCode(returned) {
        NvmlCode::SUCCESS => Ok(()),
        code => Err(NvmlFailure::Returned { call, code }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_words_are_those_of_nvml_h() {
        assert_eq!(version_word::<nvmlGpuFabricInfo_v2_t>(2), 0x0200_0024);
        assert_eq!(version_word::<nvmlGpuFabricInfo_v3_t>(3), 0x0300_0028);
    }
}
