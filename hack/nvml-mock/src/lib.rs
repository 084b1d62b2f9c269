//! A `libnvidia-ml.so.1` that needs no GPU and is controlled by a file.
//!
//! Install it under that name and put `nvml-mock.json` beside it (the real
//! file, after symbolic links); `NVML_MOCK_CONFIG` names another file. The file
//! is read again on every call, so a test changes what a running program sees by
//! replacing it (write a new one and rename it over). `hack/mock-driver.sh`
//! does all of that.
//!
//! ```json
//! {
//!   "driver_version": "580.82.07",
//!   "fabric_info_version": 3,
//!   "devices": [
//!     { "name": "NVIDIA GB200", "uuid": "GPU-...",
//!       "fabric": { "state": "completed", "status": 0, "clique_id": 1,
//!                   "cluster_uuid": "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
//!                   "health_mask": 426, "health_summary": 1 } }
//!   ],
//!   "errors": { "nvmlDeviceGetUUID@1": 15 },
//!   "delay_ms": { "nvmlInitWithFlags": 300 },
//!   "hang": [ "nvmlDeviceGetCount_v2" ],
//!   "device_count": 4294967294,
//!   "misbehaves": { "nvmlDeviceGetName@0": "unterminated" }
//! }
//! ```
//!
//! * `state` is `not-supported`, `not-started`, `in-progress`, `completed` or a
//!   number; a device without `fabric` answers `NVML_ERROR_NOT_SUPPORTED`.
//! * `fabric_info_version` is the newest `nvmlDeviceGetGpuFabricInfoV` that the
//!   "driver" accepts (3, 2, or 1 for none).
//! * `errors`, `delay_ms` and `hang` go by symbol, or by `symbol@index` for one
//!   device. A hang lasts until the file no longer names it.
//! * `misbehaves` goes by symbol likewise. The call returns success and
//!   `writes-nothing`, fills the buffer with 0xff (`garbage`), writes 256 bytes
//!   behind the buffer as well (`overrun`), writes text that is `unterminated`,
//!   `not-utf8` or has a `line-break`, or writes a struct of version 2 whatever
//!   was requested (`ignores-version`). `device_count` is returned instead of the
//!   number of devices.
//! * A missing or malformed file is a driver that is not loaded: every call
//!   returns code 9. So is a file with a field that is not known.
//!
//! A library cannot take back a symbol while it is loaded. For a *missing*
//! symbol, overwrite one letter of its name in a copy of the file, where it
//! stands between two NUL bytes (`.dynstr`): the hash tables then no longer
//! lead to it, and dlsym fails as it does on an old driver. `mock-driver.sh
//! --without SYMBOL` does that.

#![expect(unsafe_code, reason = "it is a C library")]

mod config;
mod exports;
mod session;
mod write;
