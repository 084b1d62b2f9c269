//! What NVML reports of one GPU.

use std::ffi::{c_char, c_int, c_uint};
use std::mem::{offset_of, size_of};

use nvml_wrapper_sys::bindings::{
    field_id::NVML_FI_DEV_GET_GPU_RECOVERY_ACTION, nvmlDevice_t, nvmlDeviceAddressingMode_v1_t,
    nvmlFieldValue_t, nvmlMemory_t, nvmlPciInfo_t, nvmlReturn_t,
};

use super::padded::Padded;
use super::session::Device;
use super::symbol::required;
use super::text::{TEXT_SIZE, TextBuffer, checked_text};
use crate::nvml_failure::{NvmlCode, NvmlFailure};

const NAME: &str = "nvmlDeviceGetName";
const UUID: &str = "nvmlDeviceGetUUID";
const MINOR: &str = "nvmlDeviceGetMinorNumber";
const PCI: &str = "nvmlDeviceGetPciInfo_v3";
const BRAND: &str = "nvmlDeviceGetBrand";
const ARCHITECTURE: &str = "nvmlDeviceGetArchitecture";
const CAPABILITY: &str = "nvmlDeviceGetCudaComputeCapability";
const MEMORY: &str = "nvmlDeviceGetMemoryInfo";
const ADDRESSING: &str = "nvmlDeviceGetAddressingMode";
const MODULE_ID: &str = "nvmlDeviceGetModuleId";
const VIRTUALIZATION: &str = "nvmlDeviceGetVirtualizationMode";
const PERSISTENCE: &str = "nvmlDeviceGetPersistenceMode";
const COMPUTE_MODE: &str = "nvmlDeviceGetComputeMode";
const FIELDS: &str = "nvmlDeviceGetFieldValues";
const MIG_MODE: &str = "nvmlDeviceGetMigMode";

type Text = unsafe extern "C" fn(nvmlDevice_t, *mut c_char, c_uint) -> nvmlReturn_t;
type Number = unsafe extern "C" fn(nvmlDevice_t, *mut c_uint) -> nvmlReturn_t;

/// The value of a number before the call. NVML has no such value.
pub(super) const UNWRITTEN: c_uint = 0xa5a5_a5a5;

/// `NVML_STRUCT_VERSION` of `nvmlDeviceAddressingMode_v1_t`: the size, and the version in the top byte.
const ADDRESSING_V1: c_uint = 0x0100_0008;

/// `nvmlValueType_t` of a double and of signed numbers; the others are unsigned.
const NOT_UNSIGNED: [c_uint; 4] = [0, 4, 5, 6];

const _: () = {
    assert!(size_of::<nvmlMemory_t>() == 24);
    assert!(size_of::<nvmlPciInfo_t>() == 68);
    assert!(offset_of!(nvmlPciInfo_t, busId) == 36);
    assert!(size_of::<nvmlDeviceAddressingMode_v1_t>() == 8);
    assert!(size_of::<nvmlFieldValue_t>() == 40);
};

// === impl Device ===

impl Device<'_> {
    /// The product name.
    pub fn name(&self) -> Result<String, NvmlFailure> {
        self.text(NAME, required(&self.library.lib.nvmlDeviceGetName, NAME)?)
    }

    /// The UUID: `GPU-…`, or `MIG-…` of a MIG device.
    pub fn uuid(&self) -> Result<String, NvmlFailure> {
        self.text(UUID, required(&self.library.lib.nvmlDeviceGetUUID, UUID)?)
    }

    /// The minor number of `/dev/nvidiaN`.
    pub fn minor(&self) -> Result<u32, NvmlFailure> {
        self.number(
            MINOR,
            required(&self.library.lib.nvmlDeviceGetMinorNumber, MINOR)?,
        )
    }

    /// The PCI address in the driver's form, such as `00000000:65:00.0`.
    pub fn pci_address(&self) -> Result<String, NvmlFailure> {
        let read = required(&self.library.lib.nvmlDeviceGetPciInfo_v3, PCI)?;
        let mut info = Padded::new(nvmlPciInfo_t {
            busIdLegacy: [0; 16],
            domain: 0,
            bus: 0,
            device: 0,
            pciDeviceId: 0,
            pciSubSystemId: 0,
            busId: [0; 32],
        });
        // SAFETY: the handle is of the session that `self` borrows, and the buffer is larger than the struct.
        self.library
            .call(PCI, || unsafe { read(self.handle, (&raw mut info).cast()) })?;
        // `c_char` is signed on one architecture and unsigned on the other.
        let text = info
            .value
            .busId
            .map(|it| u8::from_ne_bytes(it.to_ne_bytes()));
        checked_text(PCI, &text)
    }

    /// `nvmlBrandType_t`.
    pub fn brand(&self) -> Result<u32, NvmlFailure> {
        self.number(
            BRAND,
            required(&self.library.lib.nvmlDeviceGetBrand, BRAND)?,
        )
    }

    /// `nvmlDeviceArchitecture_t`.
    pub fn architecture(&self) -> Result<u32, NvmlFailure> {
        self.number(
            ARCHITECTURE,
            required(&self.library.lib.nvmlDeviceGetArchitecture, ARCHITECTURE)?,
        )
    }

    /// The CUDA compute capability: major and minor.
    pub fn compute_capability(&self) -> Result<(u32, u32), NvmlFailure> {
        let call = CAPABILITY;
        let read = required(&self.library.lib.nvmlDeviceGetCudaComputeCapability, call)?;
        let (mut major, mut minor) = (Padded::new(c_int::MIN), Padded::new(c_int::MIN));
        // SAFETY: the handle is of the session that `self` borrows, and both pointers are valid for more than
        // the one word that is written.
        self.library.call(call, || unsafe {
            read(
                self.handle,
                (&raw mut major).cast(),
                (&raw mut minor).cast(),
            )
        })?;
        let number = |it: c_int| u32::try_from(it).map_err(|_| NvmlFailure::WroteNothing { call });
        Ok((number(major.value)?, number(minor.value)?))
    }

    /// The total memory in bytes.
    pub fn memory(&self) -> Result<u64, NvmlFailure> {
        let read = required(&self.library.lib.nvmlDeviceGetMemoryInfo, MEMORY)?;
        let mut memory = Padded::new(nvmlMemory_t {
            total: u64::MAX,
            free: 0,
            used: 0,
        });
        // SAFETY: the handle is of the session that `self` borrows, and the buffer is larger than the struct.
        self.library.call(MEMORY, || unsafe {
            read(self.handle, (&raw mut memory).cast())
        })?;
        match memory.value.total {
            u64::MAX => Err(NvmlFailure::WroteNothing { call: MEMORY }),
            total => Ok(total),
        }
    }

    /// `nvmlDeviceAddressingModeType_t`: 0 none, 1 HMM, 2 ATS.
    pub fn addressing_mode(&self) -> Result<u32, NvmlFailure> {
        let read = required(&self.library.lib.nvmlDeviceGetAddressingMode, ADDRESSING)?;
        let mut mode = Padded::new(nvmlDeviceAddressingMode_v1_t {
            version: ADDRESSING_V1,
            value: UNWRITTEN,
        });
        // SAFETY: the handle is of the session that `self` borrows. NVML writes at most the size in the
        // version word, and the buffer is larger than that.
        self.library.call(ADDRESSING, || unsafe {
            read(self.handle, (&raw mut mode).cast())
        })?;
        written(ADDRESSING, mode.value.value)
    }

    /// The position of the GPU on its board; 0 is none.
    pub fn module_id(&self) -> Result<u32, NvmlFailure> {
        self.number(
            MODULE_ID,
            required(&self.library.lib.nvmlDeviceGetModuleId, MODULE_ID)?,
        )
    }

    /// `nvmlGpuVirtualizationMode_t`: 0 none, 1 passthrough, 2 vGPU guest, 3 vGPU host.
    pub fn virtualization_mode(&self) -> Result<u32, NvmlFailure> {
        self.number(
            VIRTUALIZATION,
            required(
                &self.library.lib.nvmlDeviceGetVirtualizationMode,
                VIRTUALIZATION,
            )?,
        )
    }

    /// Whether persistence mode is on.
    pub fn persistence_mode(&self) -> Result<bool, NvmlFailure> {
        let read = required(&self.library.lib.nvmlDeviceGetPersistenceMode, PERSISTENCE)?;
        Ok(self.number(PERSISTENCE, read)? != 0)
    }

    /// `nvmlComputeMode_t`: 0 default, 2 prohibited, 3 exclusive process.
    pub fn compute_mode(&self) -> Result<u32, NvmlFailure> {
        self.number(
            COMPUTE_MODE,
            required(&self.library.lib.nvmlDeviceGetComputeMode, COMPUTE_MODE)?,
        )
    }

    /// Whether MIG mode is on now, and whether it will be on after the next reset.
    pub fn mig_mode(&self) -> Result<(bool, bool), NvmlFailure> {
        let read = required(&self.library.lib.nvmlDeviceGetMigMode, MIG_MODE)?;
        let (mut current, mut pending) = (Padded::new(UNWRITTEN), Padded::new(UNWRITTEN));
        // SAFETY: the handle is of the session that `self` borrows, and both pointers are valid for more than
        // the one word that is written.
        self.library.call(MIG_MODE, || unsafe {
            read(
                self.handle,
                (&raw mut current).cast(),
                (&raw mut pending).cast(),
            )
        })?;
        let is_on = |mode| Ok::<_, NvmlFailure>(written(MIG_MODE, mode)? != 0);
        Ok((is_on(current.value)?, is_on(pending.value)?))
    }

    /// `nvmlDeviceGpuRecoveryAction_t`: what the driver requires before the GPU can be used again; 0 is nothing.
    pub fn recovery_action(&self) -> Result<u32, NvmlFailure> {
        let read = required(&self.library.lib.nvmlDeviceGetFieldValues, FIELDS)?;
        let mut field = Padded::new(nvmlFieldValue_t {
            fieldId: NVML_FI_DEV_GET_GPU_RECOVERY_ACTION,
            scopeId: 0,
            timestamp: 0,
            latencyUsec: 0,
            valueType: UNWRITTEN,
            nvmlReturn: UNWRITTEN,
            value: nvml_wrapper_sys::bindings::nvmlValue_t { ullVal: 0 },
        });
        // SAFETY: the handle is of the session that `self` borrows, and the buffer is larger than the one value
        // that is requested.
        self.library.call(FIELDS, || unsafe {
            read(self.handle, 1, (&raw mut field).cast())
        })?;
        let field = field.value;
        match NvmlCode(written(FIELDS, field.nvmlReturn)?) {
            NvmlCode::SUCCESS if NOT_UNSIGNED.contains(&field.valueType) => {
                Err(NvmlFailure::WroteNothing { call: FIELDS })
            }
            // SAFETY: any bytes are a number, and the value was initialised as a whole. Each unsigned type has its
            // low bytes first.
            NvmlCode::SUCCESS => Ok(unsafe { field.value.uiVal }),
            code => Err(NvmlFailure::Returned { call: FIELDS, code }),
        }
    }

    fn text(&self, call: &'static str, function: Text) -> Result<String, NvmlFailure> {
        let mut text = TextBuffer::new();
        // SAFETY: the handle is of the session that `self` borrows, and the buffer is larger than the length that
        // is passed.
        self.library.call(call, || unsafe {
            function(self.handle, text.as_mut_ptr(), TEXT_SIZE)
        })?;
        text.read(call)
    }

    /// Reads a number that is not a pointer or a struct.
    pub(super) fn number(&self, call: &'static str, function: Number) -> Result<u32, NvmlFailure> {
        let mut number = Padded::new(UNWRITTEN);
        // SAFETY: the handle is of the session that `self` borrows, and the pointer is valid for more than the one
        // word that is written.
        self.library.call(call, || unsafe {
            function(self.handle, (&raw mut number).cast())
        })?;
        written(call, number.value)
    }
}

/// `number`, unless the call has not written it.
pub(super) fn written(call: &'static str, number: c_uint) -> Result<u32, NvmlFailure> {
    if number == UNWRITTEN {
        return Err(NvmlFailure::WroteNothing { call });
    }
    Ok(number)
}
