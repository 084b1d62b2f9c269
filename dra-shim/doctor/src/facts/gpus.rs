//! Where the facts of a host's NVIDIA GPUs are.

use std::path::Path;

use gpu_inventory::Sources;
use nvml_clique::DriverRoot;

use crate::host::Host;

/// The sources of a host's GPUs, with the driver below `driver_root`, a path of the host.
///
/// NVML is read on this host only, in processes of this program: its `main` begins with
/// [`serve_if_started`](gpu_inventory::serve_if_started).
pub fn gpu_sources(host: &Host, driver_root: &Path) -> Sources {
    let this_host = Sources::this_host(DriverRoot::new(host.resolve_target(driver_root)));
    Sources {
        proc: host.resolve_target("/proc"),
        sys: host.resolve_target("/sys"),
        program: this_host.program.filter(|_| host.is_this_host()),
        ..this_host
    }
}
