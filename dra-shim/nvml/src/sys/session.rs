//! The library, a session, and a device of the session.

use std::ffi::{OsStr, c_int, c_uint};
use std::ptr;

use libloading::os::unix::{Library as Loaded, RTLD_LOCAL, RTLD_NOW};
use nvml_wrapper_sys::bindings::{NVML_INIT_FLAG_NO_GPUS, NvmlLib, nvmlDevice_t, nvmlReturn_t};

use super::padded::Padded;
use super::symbol::required;
use super::text::{TEXT_SIZE, TextBuffer};
use crate::current_call::CurrentCall;
use crate::nvml_failure::{NvmlCode, NvmlFailure};

const LOAD: &str = "dlopen";
const INIT: &str = "nvmlInitWithFlags";
const INIT_V2: &str = "nvmlInit_v2";
const INIT_V1: &str = "nvmlInit";
const SHUTDOWN: &str = "nvmlShutdown";
const DRIVER_VERSION: &str = "nvmlSystemGetDriverVersion";
const CUDA_VERSION: &str = "nvmlSystemGetCudaDriverVersion_v2";
const COUNT: &str = "nvmlDeviceGetCount_v2";
const COUNT_V1: &str = "nvmlDeviceGetCount";
const HANDLE: &str = "nvmlDeviceGetHandleByIndex_v2";
const HANDLE_V1: &str = "nvmlDeviceGetHandleByIndex";

/// Maximum plausible number of GPUs. The kernel module's limit is far lower; a larger count is
/// an error.
const MAX_GPUS: u32 = 1024;

type Count = unsafe extern "C" fn(*mut c_uint) -> nvmlReturn_t;
type Handle = unsafe extern "C" fn(c_uint, *mut nvmlDevice_t) -> nvmlReturn_t;

/// A function with its name in `nvml.h`.
type Named<F> = (&'static str, F);

/// A loaded `libnvidia-ml.so.1`. Dropping it unloads the library.
pub(crate) struct Library {
    pub(super) lib: NvmlLib,
    current_call: CurrentCall,
}

/// An open NVML session, from [`Nvml::open`](crate::Nvml::open). Dropping it ends the session, then unloads the library.
pub struct Session {
    pub(super) library: Library,
    shutdown: unsafe extern "C" fn() -> nvmlReturn_t,
}

/// A device's handle, valid as long as the session.
pub struct Device<'s> {
    pub(super) library: &'s Library,
    pub(super) handle: nvmlDevice_t,
}

// === impl Library ===

impl Library {
    /// Loads the library, without calling a function of NVML. The error is the loader's
    /// message.
    ///
    /// Binds every symbol at once, as Python's NVML bindings do. So a symbol that the library
    /// cannot resolve is an error of the loader, and does not kill the process on first use.
    pub(crate) fn load(path: &OsStr, current_call: CurrentCall) -> Result<Self, String> {
        let load = || {
            // SAFETY: loading runs the library's initialisers. The file is the driver's own,
            // below the configured root, and trusted like the driver. It has been checked to
            // be a complete library for this architecture. The bindings look up its functions
            // with the names and types of nvml.h.
            unsafe { NvmlLib::from_library(Loaded::open(Some(path), RTLD_NOW | RTLD_LOCAL)?) }
        };
        match current_call.track(LOAD, load) {
            Ok(lib) => Ok(Self { lib, current_call }),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Opens a session with the newest initialisation function of the library. Only the newest
    /// does not touch the GPUs, so it also works on a node whose GPUs are all bound to vfio.
    pub(crate) fn open(self) -> Result<Session, NvmlFailure> {
        let lib = &self.lib;
        // Looked up before the session is opened: without it, the session could not be ended.
        let shutdown = required(&lib.nvmlShutdown, SHUTDOWN)?;
        if let Ok(init) = lib.nvmlInitWithFlags {
            // SAFETY: it takes a flag of nvml.h and no pointer.
            self.call(INIT, || unsafe { init(NVML_INIT_FLAG_NO_GPUS) })?;
        } else if let Ok(init) = lib.nvmlInit_v2 {
            // SAFETY: it takes no arguments.
            self.call(INIT_V2, || unsafe { init() })?;
        } else if let Ok(init) = lib.nvmlInit {
            // SAFETY: it takes no arguments.
            self.call(INIT_V1, || unsafe { init() })?;
        } else {
            return Err(NvmlFailure::SymbolMissing { call: INIT });
        }
        Ok(Session {
            library: self,
            shutdown,
        })
    }

    /// Makes a call, with `name` for reports.
    pub(super) fn call(
        &self,
        name: &'static str,
        call: impl FnOnce() -> nvmlReturn_t,
    ) -> Result<(), NvmlFailure> {
        match NvmlCode(self.current_call.track(name, call)) {
            NvmlCode::SUCCESS => Ok(()),
            code => Err(NvmlFailure::Returned { call: name, code }),
        }
    }
}

// === impl Session ===

impl Session {
    /// The number of devices, at most 1024.
    ///
    /// # Errors
    ///
    /// Any [`NvmlFailure`]; a larger number is [`NvmlFailure::TooManyGpus`].
    pub fn device_count(&self) -> Result<u32, NvmlFailure> {
        let ((call, count), _) = self.enumeration()?;
        // No library returns this count, so it shows whether the call wrote one.
        let mut devices = Padded::new(c_uint::MAX);
        // SAFETY: the session is open, and the pointer is valid for more than the one word
        // that is written.
        self.library
            .call(call, || unsafe { count((&raw mut devices).cast()) })?;
        match devices.value {
            c_uint::MAX => Err(NvmlFailure::WroteNothing { call }),
            count if count > MAX_GPUS => Err(NvmlFailure::TooManyGpus { call, count }),
            count => Ok(count),
        }
    }

    /// The driver's version, such as `580.82.07`.
    pub fn driver_version(&self) -> Result<String, NvmlFailure> {
        let version = required(&self.library.lib.nvmlSystemGetDriverVersion, DRIVER_VERSION)?;
        let mut text = TextBuffer::new();
        // SAFETY: the session is open, and the buffer is larger than the length that is passed.
        self.library.call(DRIVER_VERSION, || unsafe {
            version(text.as_mut_ptr(), TEXT_SIZE)
        })?;
        text.read(DRIVER_VERSION)
    }

    /// The newest CUDA version that the driver supports, as `major * 1000 + minor * 10`.
    pub fn cuda_version(&self) -> Result<u32, NvmlFailure> {
        let call = CUDA_VERSION;
        let version = required(&self.library.lib.nvmlSystemGetCudaDriverVersion_v2, call)?;
        let mut number = Padded::new(c_int::MIN);
        // SAFETY: the session is open, and the pointer is valid for more than the one word
        // that is written.
        self.library
            .call(call, || unsafe { version((&raw mut number).cast()) })?;
        u32::try_from(number.value).map_err(|_| NvmlFailure::WroteNothing { call })
    }

    /// The device with `index`, which is below [`device_count`](Self::device_count).
    pub fn device(&self, index: u32) -> Result<Device<'_>, NvmlFailure> {
        let (_, (call, handle)) = self.enumeration()?;
        let mut device: Padded<nvmlDevice_t> = Padded::new(ptr::null_mut());
        // SAFETY: as for the count.
        self.library
            .call(call, || unsafe { handle(index, (&raw mut device).cast()) })?;
        if device.value.is_null() {
            return Err(NvmlFailure::WroteNothing { call });
        }
        Ok(Device {
            library: &self.library,
            handle: device.value,
        })
    }

    /// The functions for the count and for a handle, of the same generation: the generations
    /// number the devices in different orders.
    fn enumeration(&self) -> Result<(Named<Count>, Named<Handle>), NvmlFailure> {
        let lib = &self.library.lib;
        let newer = || -> Result<_, NvmlFailure> {
            let count = required(&lib.nvmlDeviceGetCount_v2, COUNT)?;
            let handle = required(&lib.nvmlDeviceGetHandleByIndex_v2, HANDLE)?;
            Ok(((COUNT, count), (HANDLE, handle)))
        };
        newer().or_else(|missing| {
            let count = lib.nvmlDeviceGetCount.as_ref().ok();
            let handle = lib.nvmlDeviceGetHandleByIndex.as_ref().ok();
            let (count, handle) = count.zip(handle).ok_or(missing)?;
            Ok(((COUNT_V1, *count), (HANDLE_V1, *handle)))
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: the session is open, and none of its handles is in use any more. An error
        // does not affect the results.
        let _ = self.library.call(SHUTDOWN, || unsafe { (self.shutdown)() });
    }
}
