//! The library, a session of it, and a device of the session.

use std::ffi::{CStr, OsStr, c_char, c_uint};
use std::ptr;

use libloading::os::unix::{Library as Loaded, RTLD_LOCAL, RTLD_NOW};
use nvml_wrapper_sys::bindings::{
    NVML_DEVICE_NAME_V2_BUFFER_SIZE, NVML_DEVICE_UUID_V2_BUFFER_SIZE, NVML_INIT_FLAG_NO_GPUS,
    NvmlLib, nvmlDevice_t, nvmlReturn_t,
};

use super::{Roomy, entry};
use crate::call::CallUnderWay;
use crate::nvml::{NvmlCode, NvmlFailure};

const LOAD: &str = "dlopen";
const INIT: &str = "nvmlInitWithFlags";
const INIT_V2: &str = "nvmlInit_v2";
const INIT_V1: &str = "nvmlInit";
const SHUTDOWN: &str = "nvmlShutdown";
const COUNT: &str = "nvmlDeviceGetCount_v2";
const COUNT_V1: &str = "nvmlDeviceGetCount";
const HANDLE: &str = "nvmlDeviceGetHandleByIndex_v2";
const HANDLE_V1: &str = "nvmlDeviceGetHandleByIndex";
const NAME: &str = "nvmlDeviceGetName";
const UUID: &str = "nvmlDeviceGetUUID";

/// More GPUs than any host has: the kernel module's own limit is far below.
/// A count beyond it is a library that does not know what it says.
const MOST_GPUS: u32 = 1024;

/// The size of every text that is asked for.
const TEXT: c_uint = 96;
const _: () = assert!(NVML_DEVICE_NAME_V2_BUFFER_SIZE == TEXT);
const _: () = assert!(NVML_DEVICE_UUID_V2_BUFFER_SIZE == TEXT);

type Count = unsafe extern "C" fn(*mut c_uint) -> nvmlReturn_t;
type Handle = unsafe extern "C" fn(c_uint, *mut nvmlDevice_t) -> nvmlReturn_t;
type Text = unsafe extern "C" fn(nvmlDevice_t, *mut c_char, c_uint) -> nvmlReturn_t;

/// A function and its name in `nvml.h`.
type Named<F> = (&'static str, F);

/// A loaded `libnvidia-ml.so.1`; unloaded when dropped.
pub(crate) struct Library {
    pub(super) lib: NvmlLib,
    under_way: CallUnderWay,
}

/// An open session. Ends when dropped, before the library is unloaded.
pub(crate) struct Session {
    library: Library,
    shutdown: unsafe extern "C" fn() -> nvmlReturn_t,
}

/// A device's handle; it is good for as long as the session is.
pub(crate) struct Device<'s> {
    pub(super) library: &'s Library,
    pub(super) handle: nvmlDevice_t,
}

// === impl Library ===

impl Library {
    /// Loads and nothing more: no function of NVML is called. Fails with the
    /// loader's own words.
    ///
    /// Every symbol is bound at once, as when Python loads NVML: one that is
    /// missing is then a refusal of the loader, and not the end of the process
    /// on the first use.
    pub(crate) fn load(path: &OsStr, under_way: CallUnderWay) -> Result<Self, String> {
        let load = || {
            // SAFETY: loading runs the library's initialisers. The file is the
            // driver's own below the root that the operator named, trusted
            // like the driver itself, and has been seen to be a whole library
            // of this architecture; the bindings look its functions up by the
            // names and types of nvml.h.
            unsafe { NvmlLib::from_library(Loaded::open(Some(path), RTLD_NOW | RTLD_LOCAL)?) }
        };
        match under_way.during(LOAD, load) {
            Ok(lib) => Ok(Self { lib, under_way }),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Initialises by the newest way that the library has. Only the first
    /// leaves the GPUs alone, so that a node whose GPUs are all bound to vfio
    /// still has an answer.
    pub(crate) fn open(self) -> Result<Session, NvmlFailure> {
        let lib = &self.lib;
        // Before anything that would have to be undone with it.
        let shutdown = entry(&lib.nvmlShutdown, SHUTDOWN)?;
        if let Ok(init) = lib.nvmlInitWithFlags {
            // SAFETY: it takes a flag of nvml.h and no pointer.
            self.call(INIT, || unsafe { init(NVML_INIT_FLAG_NO_GPUS) })?;
        } else if let Ok(init) = lib.nvmlInit_v2 {
            // SAFETY: it takes nothing.
            self.call(INIT_V2, || unsafe { init() })?;
        } else if let Ok(init) = lib.nvmlInit {
            // SAFETY: it takes nothing.
            self.call(INIT_V1, || unsafe { init() })?;
        } else {
            return Err(NvmlFailure::SymbolMissing { call: INIT });
        }
        Ok(Session {
            library: self,
            shutdown,
        })
    }

    /// Makes a call under its name.
    pub(super) fn call(
        &self,
        name: &'static str,
        call: impl FnOnce() -> nvmlReturn_t,
    ) -> Result<(), NvmlFailure> {
        match NvmlCode(self.under_way.during(name, call)) {
            NvmlCode::SUCCESS => Ok(()),
            code => Err(NvmlFailure::Returned { call: name, code }),
        }
    }
}

// === impl Session ===

impl Session {
    /// How many devices there are, never more than a host can have.
    pub(crate) fn device_count(&self) -> Result<u32, NvmlFailure> {
        let ((call, count), _) = self.enumeration()?;
        // Not a count that any library gives: whether it was written shows.
        let mut devices = Roomy::new(c_uint::MAX);
        // SAFETY: the session is open, and the pointer is good for more than
        // the one word that is written there.
        self.library
            .call(call, || unsafe { count((&raw mut devices).cast()) })?;
        match devices.value {
            c_uint::MAX => Err(NvmlFailure::WroteNothing { call }),
            count if count > MOST_GPUS => Err(NvmlFailure::TooManyGpus { call, count }),
            count => Ok(count),
        }
    }

    /// The device with this index of [`device_count`](Self::device_count).
    pub(crate) fn device(&self, index: u32) -> Result<Device<'_>, NvmlFailure> {
        let (_, (call, handle)) = self.enumeration()?;
        let mut device: Roomy<nvmlDevice_t> = Roomy::new(ptr::null_mut());
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

    /// The count and the handle by index, both of one generation: the first
    /// generation numbers devices in another order.
    fn enumeration(&self) -> Result<(Named<Count>, Named<Handle>), NvmlFailure> {
        let lib = &self.library.lib;
        let newer = || -> Result<_, NvmlFailure> {
            let count = entry(&lib.nvmlDeviceGetCount_v2, COUNT)?;
            let handle = entry(&lib.nvmlDeviceGetHandleByIndex_v2, HANDLE)?;
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
        // SAFETY: the session is open and nothing of it is left in use. What
        // it returns changes nothing about what was read.
        let _ = self.library.call(SHUTDOWN, || unsafe { (self.shutdown)() });
    }
}

// === impl Device ===

impl Device<'_> {
    /// The product name.
    pub(crate) fn name(&self) -> Result<String, NvmlFailure> {
        self.text(NAME, entry(&self.library.lib.nvmlDeviceGetName, NAME)?)
    }

    /// The UUID, `GPU-…`.
    pub(crate) fn uuid(&self) -> Result<String, NvmlFailure> {
        self.text(UUID, entry(&self.library.lib.nvmlDeviceGetUUID, UUID)?)
    }

    fn text(&self, call: &'static str, ask: Text) -> Result<String, NvmlFailure> {
        let mut buffer = Roomy::new([0_u8; TEXT as usize]);
        // SAFETY: the handle is of the session that `self` borrows, and the
        // buffer is larger than the length that is given.
        self.library.call(call, || unsafe {
            ask(self.handle, (&raw mut buffer).cast(), TEXT)
        })?;
        let text = CStr::from_bytes_until_nul(&buffer.value)
            .map_err(|_| NvmlFailure::Unterminated { call })?;
        let text = text.to_str().map_err(|_| NvmlFailure::NotText { call })?;
        if text.is_empty() {
            return Err(NvmlFailure::WroteNothing { call });
        }
        if text.contains(char::is_control) {
            return Err(NvmlFailure::NotText { call });
        }
        Ok(text.to_owned())
    }
}
