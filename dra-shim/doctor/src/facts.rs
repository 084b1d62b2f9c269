//! The facts about a host, as plain data.
//!
//! [`Facts::read`] gathers them. Every struct can also be made by hand: a test of
//! findings needs no host.
//!
//! # Example
//!
//! A test of a runtime that ignores CDI, without a host:
//!
//! ```rust
//! use host_doctor::facts::{
//!     CdiSettings, CdiSupport, KubeletRuntime, Runtime, RuntimeFacts, RuntimeKind, Settings,
//! };
//! use host_doctor::{Facts, Host, Invocation, Options, diagnose};
//!
//! let empty = tempfile::tempdir()?;
//! let mut facts = Facts::read(&Host::open(empty.path())?, &Options::default());
//! facts.runtimes = RuntimeFacts {
//!     of_kubelet: Some(KubeletRuntime {
//!         runtime: Runtime {
//!             kind: RuntimeKind::Containerd,
//!             version: Some("1.7.28".to_owned()),
//!             config: None,
//!         },
//!         socket: "/run/containerd/containerd.sock".to_owned(),
//!         settings: Settings::FromRuntime(CdiSettings {
//!             support: CdiSupport::Off,
//!             spec_dirs: None,
//!             default_handler: None,
//!         }),
//!         edit: None,
//!     }),
//!     ..RuntimeFacts::default()
//! };
//! let diagnosis = diagnose(&facts, &Invocation::default());
//! assert!(diagnosis.findings.iter().any(|it| it.id == "runtime-cdi-off"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod channels;
pub(crate) mod claims;
pub(crate) mod directories;
pub(crate) mod driver;
pub(crate) mod fabric;
pub(crate) mod gpus;
pub(crate) mod imex;
pub(crate) mod isolation;
pub(crate) mod runtimes;
pub(crate) mod specs;
pub(crate) mod watchers;

use std::panic::resume_unwind;
use std::thread;

use gpu_inventory::Inventory;
use imex_cdi::Registry;

use crate::host::Host;
use crate::options::Options;

pub use self::channels::{CapabilityFacts, ChannelFacts, ChannelNode, DriverFileFailure};
pub use self::claims::checkpoint_file::{
    CheckpointFacts, CheckpointFile, HeldChannel, HeldGpu, RecordFacts, SharedDevice, Unusable,
};
pub use self::claims::journals::GpuChange;
pub use self::claims::kubelet_root::{KubeletRootFacts, OtherRoot};
pub use self::claims::{ClaimFacts, ClaimSpecFiles, KubeletStateFile};
pub use self::directories::{
    CdiDirectory, CdiDirectoryState, DirectoryFacts, FileMode, NestedSpec,
};
pub use self::driver::{ContainerFiles, DriverFacts};
pub use self::fabric::FabricFacts;
pub use self::gpus::gpu_sources;
pub use self::imex::config::{ConfigSource, ImexConfig, NodeList};
pub use self::imex::daemons::ImexDaemon;
pub use self::imex::unit::{ImexUnit, UnitStart};
pub use self::imex::{ImexFacts, ImexSocket};
pub use self::isolation::{IsolationFacts, Toolkit};
pub use self::runtimes::RuntimeFacts;
pub use self::runtimes::model::{
    CdiSettings, CdiSupport, DefaultHandler, DisabledCri, Edit, KubeletRuntime, Misplaced, Runtime,
    RuntimeKind, Settings,
};
pub use self::specs::{DeviceConflict, SpecFacts, SpecFileFacts};
pub use self::watchers::{DirectoryView, RuntimeView, WatchedDirectory, WatcherFacts};

/// The facts that a diagnosis uses, by area.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The NVIDIA driver's library.
    pub driver: DriverFacts,
    /// The GPUs, and the driver's kernel module.
    pub gpus: Inventory,
    /// The NVLink fabric.
    pub fabric: FabricFacts,
    /// IMEX channels, as the driver offers them.
    pub channels: ChannelFacts,
    /// The host's IMEX daemon, `nvidia-imex`.
    pub imex: ImexFacts,
    /// The directories of CDI specs.
    pub directories: DirectoryFacts,
    /// The container runtimes.
    pub runtimes: RuntimeFacts,
    /// Whether runtimes notice new specs.
    pub watchers: WatcherFacts,
    /// The CDI specs.
    pub specs: SpecFacts,
    /// The claims that are prepared on the node, for each DRA driver on it; those of
    /// `compute-domain.nvidia.com` if there is none.
    pub claims: Vec<ClaimFacts>,
    /// Ways to bypass claims.
    pub isolation: IsolationFacts,
}

// === impl Facts ===

impl Facts {
    /// Reads all facts and changes nothing on the host. It cannot fail: an unreadable file is
    /// a fact, too.
    ///
    /// Reads files, `/proc` included. On this host ([`Host::is_this_host`]) it also loads
    /// NVML into this process, for the fabric, and at the same time into processes of its
    /// own, for the GPUs: these start this program again, whose `main` must begin with
    /// [`serve_if_started`](crate::serve_if_started). It queries kubelet's runtime at its socket below the
    /// host's root. With [`Options::imex_socket`], it runs `nvidia-imex-ctl`. The deadlines are
    /// 10 s for each GPU, 30 s for all of them, 15 s for the fabric, 3 s for each of two calls
    /// to the runtime, and 5 s for `nvidia-imex-ctl`. If NVML exits or crashes while the fabric
    /// is read, so does this process. If it hangs, each call leaks one thread.
    ///
    /// Takes milliseconds if NVML answers at once. It blocks, so asynchronous programs must
    /// call it on a thread of its own. The host changes meanwhile: facts that disagree may
    /// have been read at different times.
    pub fn read(host: &Host, options: &Options) -> Self {
        let paths = options.spec_dirs.iter().map(|dir| host.resolve(dir));
        let registry = Registry::load(&paths.collect::<Vec<_>>());
        let spec_dirs = options
            .spec_dirs
            .iter()
            .map(|dir| dir.display().to_string());
        let driver_root = &options.driver_root;
        let kubelet_root = options.kubelet_root.display().to_string();
        let (driver, root) = DriverFacts::read(host, driver_root);
        let sources = gpu_sources(host, driver_root);
        thread::scope(|scope| {
            // While the fabric is read: so a driver that hangs costs its deadline once.
            // req: DOCTOR-14
            let gpus = scope.spawn(move || gpu_inventory::read(&sources));
            let mut facts = Self {
                driver,
                fabric: FabricFacts::read(host.is_this_host(), root.clone()),
                runtimes: RuntimeFacts::read(host, spec_dirs.collect(), &kubelet_root),
                claims: ClaimFacts::read_all(host, &registry, &kubelet_root),
                channels: ChannelFacts::read(host),
                imex: ImexFacts::read(host, driver_root, options.imex_socket.as_deref()),
                directories: DirectoryFacts::read(host, &registry),
                watchers: WatcherFacts::read(host, &registry),
                specs: SpecFacts::read(host, &registry),
                isolation: IsolationFacts::read(host),
                gpus: gpus.join().unwrap_or_else(|panic| resume_unwind(panic)),
            };
            // The module's version is known.
            facts.driver.container_files =
                root.and_then(|root| ContainerFiles::read(host, &root, &facts.gpus));
            facts
        })
    }
}
