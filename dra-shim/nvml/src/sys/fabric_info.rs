//! A device's fabric info, in the newest version that the driver accepts.

use std::ffi::c_uint;
use std::mem::{offset_of, size_of};

use nvml_wrapper_sys::bindings::{
    nvmlGpuFabricInfo_t, nvmlGpuFabricInfo_v2_t, nvmlGpuFabricInfo_v3_t,
};

use super::padded::Padded;
use super::session::Device;
use super::symbol::required;
use crate::nvml_failure::{NvmlCode, NvmlFailure};

/// A GPU's fabric info (`nvmlGpuFabricInfo_t`), in any version.
pub struct FabricInfo {
    /// `clusterUuid`.
    pub cluster_uuid: [u8; 16],
    /// `status`, an [`NvmlCode`]; meaningful in state 3 only.
    pub status: u32,
    /// `cliqueId`.
    pub clique_id: u32,
    /// `nvmlGpuFabricState_t`: 0 not supported, 1 not started, 2 in progress, 3 completed.
    pub state: u8,
    /// `healthMask`, of v2 and newer.
    pub health_mask: Option<u32>,
    /// `healthSummary`, of v3 and newer.
    pub health_summary: Option<u8>,
}

const INFO: &str = "nvmlDeviceGetGpuFabricInfo";
const INFO_V: &str = "nvmlDeviceGetGpuFabricInfoV";

/// The value of `state` before the call. If it is unchanged afterwards and everything else is
/// zero, the library has written nothing. Zero cannot be used: it means "not supported".
const UNWRITTEN: u8 = 0xa5;

const V2: c_uint = version_word::<nvmlGpuFabricInfo_v2_t>(2);
const V3: c_uint = version_word::<nvmlGpuFabricInfo_v3_t>(3);

// The layouts of nvml.h (R550 and newer). The version word contains the size: NVML would
// reject bindings of another size or, worse, overrun them. v2 is read through v3, which begins
// with the same fields.
const _: () = {
    assert!(size_of::<nvmlGpuFabricInfo_t>() == 28);
    assert!(offset_of!(nvmlGpuFabricInfo_t, clusterUuid) == 0);
    assert!(offset_of!(nvmlGpuFabricInfo_t, status) == 16);
    assert!(offset_of!(nvmlGpuFabricInfo_t, cliqueId) == 20);
    assert!(offset_of!(nvmlGpuFabricInfo_t, state) == 24);
    assert!(size_of::<nvmlGpuFabricInfo_v2_t>() == 36);
    assert!(offset_of!(nvmlGpuFabricInfo_v2_t, version) == 0);
    assert!(offset_of!(nvmlGpuFabricInfo_v2_t, clusterUuid) == 4);
    assert!(offset_of!(nvmlGpuFabricInfo_v2_t, status) == 20);
    assert!(offset_of!(nvmlGpuFabricInfo_v2_t, cliqueId) == 24);
    assert!(offset_of!(nvmlGpuFabricInfo_v2_t, state) == 28);
    assert!(offset_of!(nvmlGpuFabricInfo_v2_t, healthMask) == 32);
    assert!(size_of::<nvmlGpuFabricInfo_v3_t>() == 40);
    assert!(offset_of!(nvmlGpuFabricInfo_v3_t, version) == 0);
    assert!(offset_of!(nvmlGpuFabricInfo_v3_t, clusterUuid) == 4);
    assert!(offset_of!(nvmlGpuFabricInfo_v3_t, status) == 20);
    assert!(offset_of!(nvmlGpuFabricInfo_v3_t, cliqueId) == 24);
    assert!(offset_of!(nvmlGpuFabricInfo_v3_t, state) == 28);
    assert!(offset_of!(nvmlGpuFabricInfo_v3_t, healthMask) == 32);
    assert!(offset_of!(nvmlGpuFabricInfo_v3_t, healthSummary) == 36);
};

/// `NVML_STRUCT_VERSION` of nvml.h: the size, and the version in the top byte.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the structs have only a few bytes"
)]
const fn version_word<T>(version: u32) -> c_uint {
    size_of::<T>() as c_uint | (version << 24)
}

// === impl Device ===

impl Device<'_> {
    /// Tries v3, then v2, then the unversioned call, until one succeeds.
    ///
    /// "Not supported" counts only if every version fails: it may refer to the version and not
    /// the GPU. The Go driver uses the unversioned call.
    ///
    /// # Errors
    ///
    /// Any [`NvmlFailure`]. The failure of a version that the library or the driver does not have is returned only if
    /// all versions fail so.
    // req: NODE-44
    pub fn fabric_info(&self) -> Result<FabricInfo, NvmlFailure> {
        let mut best_failure = NvmlFailure::SymbolMissing { call: INFO_V };
        for read in [Self::v3, Self::v2, Self::unversioned] {
            match read(self) {
                Err(failure) => match version_weight(&failure) {
                    None => return Err(failure),
                    weight if weight > version_weight(&best_failure) => best_failure = failure,
                    Some(_) => {}
                },
                info @ Ok(_) => return info,
            }
        }
        Err(best_failure)
    }

    fn v3(&self) -> Result<FabricInfo, NvmlFailure> {
        self.versioned(V3)
    }

    fn v2(&self) -> Result<FabricInfo, NvmlFailure> {
        self.versioned(V2)
    }

    /// Reads with the version word [`V2`] or [`V3`]: v3 begins with the fields of v2.
    fn versioned(&self, word: c_uint) -> Result<FabricInfo, NvmlFailure> {
        let read = required(&self.library.lib.nvmlDeviceGetGpuFabricInfoV, INFO_V)?;
        let mut info = Padded::new(nvmlGpuFabricInfo_v3_t {
            version: word,
            clusterUuid: [0; 16],
            status: 0,
            cliqueId: 0,
            state: UNWRITTEN,
            healthMask: 0,
            healthSummary: 0,
        });
        // SAFETY: the handle is of the session that `self` borrows. NVML writes at most the
        // size in the version word, and the buffer is larger than that.
        self.library.call(INFO_V, || unsafe {
            read(self.handle, (&raw mut info).cast())
        })?;
        let info = info.value;
        FabricInfo {
            cluster_uuid: info.clusterUuid,
            status: info.status,
            clique_id: info.cliqueId,
            state: info.state,
            health_mask: Some(info.healthMask),
            health_summary: (word == V3).then_some(info.healthSummary),
        }
        .check_written(INFO_V)
    }

    fn unversioned(&self) -> Result<FabricInfo, NvmlFailure> {
        let read = required(&self.library.lib.nvmlDeviceGetGpuFabricInfo, INFO)?;
        let mut info = Padded::new(nvmlGpuFabricInfo_t {
            clusterUuid: [0; 16],
            status: 0,
            cliqueId: 0,
            state: UNWRITTEN,
        });
        // SAFETY: the handle is of the session that `self` borrows. NVML writes this struct,
        // which has no version and never changed, and the buffer is larger than that.
        self.library.call(INFO, || unsafe {
            read(self.handle, (&raw mut info).cast())
        })?;
        let info = info.value;
        FabricInfo {
            cluster_uuid: info.clusterUuid,
            status: info.status,
            clique_id: info.cliqueId,
            state: info.state,
            health_mask: None,
            health_summary: None,
        }
        .check_written(INFO)
    }
}

/// Ranks failures that may be due to the version of the call: if every version fails, the
/// failure with the highest rank is reported. `None` for a failure of the GPU.
fn version_weight(failure: &NvmlFailure) -> Option<u8> {
    match failure {
        NvmlFailure::SymbolMissing { .. } => Some(0),
        NvmlFailure::Returned { code, .. } => match *code {
            NvmlCode::ARGUMENT_VERSION_MISMATCH
            | NvmlCode::FUNCTION_NOT_FOUND
            | NvmlCode::INVALID_ARGUMENT => Some(1),
            NvmlCode::NOT_SUPPORTED => Some(2),
            _ => None,
        },
        _ => None,
    }
}

// === impl FabricInfo ===

impl FabricInfo {
    // req: NODE-45
    fn check_written(self, call: &'static str) -> Result<Self, NvmlFailure> {
        let rest_is_zero = self.cluster_uuid == [0; 16] && self.status == 0 && self.clique_id == 0;
        if self.state == UNWRITTEN && rest_is_zero {
            return Err(NvmlFailure::WroteNothing { call });
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_words_are_those_of_nvml_h() {
        assert_eq!((V2, V3), (0x0200_0024, 0x0300_0028));
    }
}
