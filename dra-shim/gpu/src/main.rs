//! `gpu-kubelet-plugin`: gives pods their GPUs through kubelet's DRA protocol.
//!
//! ```text
//! NVML (in a child), /proc, sysfs ──► monitor ──► node_gpus ──► publish ──► slice, health, conditions, events
//!                                        │  │ HealthReading      ▲  ▲ held_devices, device_plugin
//! NVML's events (in a child) ────────────│──┴──► health_monitor ─┘ HealthReport
//!                                        │ HostGpus   │ health, health_store
//!                                        ▼
//! kubelet ◄──► dra-kubelet ──► driver ──► gpu-node ──► checkpoint, CDI files, journals
//!                                            │
//!                  effects_keeper ──► nvidia_smi ──► time slices of GPUs
//! ```
//!
//! [`plugin_parts`] has what surrounds the claims. No state of GPUs, driver, node or cluster ends the process, and the
//! process itself never opens a GPU: a driver can be unloaded and a GPU reset while the plugin runs. With health checks,
//! the child that waits for events holds the GPUs, except those that need a reset.

#![forbid(unsafe_code)]

mod args;
mod device_plugin;
mod driver;
mod effects_keeper;
mod gpu_devices;
mod health;
mod health_monitor;
mod health_reading;
mod health_store;
mod held_devices;
mod hook;
mod metrics;
mod monitor;
mod node_gpus;
mod node_state;
mod nvidia_smi;
mod publish;
mod run;
mod slice_device;

use std::process::ExitCode;

fn main() -> ExitCode {
    // The plugin starts itself to read NVML.
    if let Some(code) = nvml_session::serve_if_started() {
        return code;
    }
    daemon_runtime::daemon::main(run::run)
}
