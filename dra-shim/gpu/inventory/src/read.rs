//! Reads a host.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use nvml_session::{DriverRoot, Failure, SessionProgram};

use crate::facts::{DriverFacts, Inventory};
use crate::host_files::HostFiles;
use crate::join::join;
use crate::nvml_facts::{NvmlReader, unreadable};

/// Where the facts of a host are.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The root with the driver's library.
    pub driver_root: DriverRoot,
    /// `/proc`, or a directory in its place.
    pub proc: PathBuf,
    /// `/sys`, or a directory in its place.
    pub sys: PathBuf,
    /// The program whose `main` begins with [`serve_if_started`](nvml_session::serve_if_started), to read NVML in
    /// processes of its own. `None`: NVML is not read.
    pub program: Option<SessionProgram>,
    /// The time for one call of NVML, and for all calls on one GPU. Reading ends after three times as long.
    pub deadline: Duration,
}

/// The time that real drivers need for a GPU without persistence mode, with a reserve.
const DEADLINE: Duration = Duration::from_secs(10);

// === impl Sources ===

impl Sources {
    /// This host, with the driver below `driver_root`, read by processes of this program.
    pub fn this_host(driver_root: DriverRoot) -> Self {
        Self {
            driver_root,
            proc: "/proc".into(),
            sys: "/sys".into(),
            program: Some(SessionProgram::this(DEADLINE)),
            deadline: DEADLINE,
        }
    }
}

/// Reads the GPUs of a host. It never fails: what cannot be read is a failure in its place. Failures have the host's
/// own paths, `/proc` and `/sys`.
///
/// Blocks for as long as the driver does, at most three times [`Sources::deadline`].
pub fn read(sources: &Sources) -> Inventory {
    let Sources {
        driver_root,
        proc,
        sys,
        program,
        deadline,
    } = sources;
    let files = HostFiles::new(proc, sys);
    let (driver, nvml) = match (program, driver_root.find_library()) {
        (None, _) => (DriverFacts::default(), Vec::new()),
        (Some(_), Err(error)) => {
            let missing = Failure::new("NVML:", error.to_string());
            (unreadable(missing), Vec::new())
        }
        (Some(program), Ok(_)) => NvmlReader {
            program,
            root: driver_root,
            deadline: *deadline,
            until: Instant::now() + *deadline * 3,
        }
        .read(),
    };
    Inventory {
        host: files.host(),
        driver: DriverFacts {
            module: files.module_version(),
            ..driver
        },
        gpus: join(nvml, files.gpus()),
    }
}
