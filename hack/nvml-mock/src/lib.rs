//! A `libnvidia-ml.so.1` that needs no GPU and is controlled by a file.
//!
//! Install it under that name and put `nvml-mock.json` beside it (beside the real
//! file, after symbolic links); `NVML_MOCK_CONFIG` names another file. A file that
//! was replaced by a rename is read again by the next call, so a test can replace
//! it under a running program. `hack/mock-driver.sh` does all of that.
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
//! * `inventory` names a file beside this one with the inventory of `gpu-inventory`: its
//!   GPUs replace `devices`. A device can also have `facts`, a GPU of an inventory.
//! * Keys of `errors` and `delay_ms`, and the items of `hang` and `abort`, are a symbol,
//!   `symbol@index` for one device, `@index` for every call on one device, or `symbol#n` and
//!   `symbol@index#n` for the n-th such call of the process. A hang lasts until the file no
//!   longer names it. `abort` ends the process with SIGABRT.
//! * Keys of `misbehaves` are the same. The call returns success and
//!   `writes-nothing`, fills the buffer with 0xff (`garbage`), also writes 256
//!   bytes past the buffer (`overrun`), writes text that is `unterminated`,
//!   `not-utf8` or has a `line-break`, or writes a struct of version 2 whatever
//!   was requested (`ignores-version`). `device_count` is returned instead of the
//!   number of devices.
//! * `event_types` are the types of events that every device has, as bits of `nvml.h`; otherwise XIDs, ECC errors and
//!   changes of the MIG configuration (267). Events are lines that a test appends to `nvml-mock.events` beside this
//!   file: `{"gpu": 0, "type": 8, "data": 79}`, with `gpu_instance` and `compute_instance` if they have one. An event
//!   set gets the events after its creation.
//! * If the file is missing, malformed or has an unknown field, the driver counts
//!   as not loaded: every call returns code 9.
//!
//! A loaded library cannot drop a symbol. For a *missing* symbol, overwrite one
//! letter of its name between two NUL bytes (`.dynstr`) in a copy of the file: the
//! name no longer matches its hash, and dlsym fails as with an old driver.
//! `mock-driver.sh --without SYMBOL` does that.

#![expect(unsafe_code, reason = "it is a C library")]

mod config;
mod event_exports;
mod events;
mod exports;
mod gpu_exports;
mod mig_exports;
mod session;
mod write;
