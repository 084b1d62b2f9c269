//! One check for each area.

mod channels;
mod claims;
mod directories;
mod driver;
mod fabric;
mod imex;
mod isolation;
mod runtimes;
mod specs;
mod watchers;

use imex_cdi::Registry;

use crate::area::AreaReport;
use crate::diagnosis::Diagnosis;
use crate::host::Host;
use crate::invocation::Invocation;
use crate::options::Options;

/// Examines every area of a host. Returns a line for each claim, too.
pub fn examine(
    host: &Host,
    registry: &Registry,
    options: &Options,
    invocation: &Invocation,
) -> (Diagnosis, String) {
    let files = host.files();
    let dirs = options.spec_dirs.iter();
    let dirs: Vec<String> = dirs.map(|dir| dir.display().to_string()).collect();
    let kubelet_root = options.kubelet_root.display().to_string();
    let (driver, driver_report) = driver::check(files);
    let (fabric, fabric_report) = fabric::check(files, &driver);
    let (runtimes, runtimes_report) = runtimes::check(files, &dirs);
    let (claims_report, claims) = claims::check(files, registry, &kubelet_root, invocation);
    let socket = options.imex_socket.as_deref();
    let imex = imex::check(files, &driver, fabric.as_ref(), socket);
    let reports: Vec<(&'static str, AreaReport)> = vec![
        ("driver", driver_report),
        ("fabric", fabric_report),
        ("channels", channels::check(files, &driver)),
        ("imex", imex),
        ("directories", directories::check(files, registry)),
        ("runtimes", runtimes_report),
        ("watching", watchers::check(files, registry)),
        (
            "specs",
            specs::check(files, host, registry, &runtimes, invocation),
        ),
        ("claims", claims_report),
        ("isolation", isolation::check(files)),
    ];
    (Diagnosis::new(reports), claims)
}
