//! The configuration file of the mock driver.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, OsStr, c_void};
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use gpu_inventory::{GpuFacts, Inventory};
use serde::{Deserialize, Deserializer, de};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) driver_version: String,
    /// As `major * 1000 + minor * 10`.
    #[serde(default = "newest_cuda")]
    pub(crate) cuda_version: i32,
    #[serde(default = "newest_fabric_info")]
    pub(crate) fabric_info_version: u32,
    #[serde(default)]
    pub(crate) devices: Vec<Device>,
    /// A file with an inventory beside this file: its GPUs and versions instead of `devices`.
    inventory: Option<PathBuf>,
    #[serde(default)]
    errors: HashMap<String, u32>,
    #[serde(default)]
    delay_ms: HashMap<String, u64>,
    #[serde(default)]
    hang: Vec<String>,
    /// The calls that end the process with SIGABRT.
    #[serde(default)]
    abort: Vec<String>,
    /// The count to return instead of the number of devices.
    pub(crate) device_count: Option<u32>,
    #[serde(default)]
    misbehaves: HashMap<String, Misbehaviour>,
    /// The types of events that every device has, as bits of `nvml.h`.
    #[serde(default = "usual_events")]
    pub(crate) event_types: u64,
}

/// A wrong behaviour of a call that returns success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Misbehaviour {
    /// It writes nothing.
    WritesNothing,
    /// It fills the whole buffer with 0xff.
    Garbage,
    /// It writes its result, and 256 bytes past the caller's buffer.
    Overrun,
    /// Its text fills the buffer without a NUL.
    Unterminated,
    /// Its text is not UTF-8.
    NotUtf8,
    /// Its text contains a line break.
    LineBreak,
    /// It writes a struct of version 2, whatever version was requested.
    IgnoresVersion,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) uuid: String,
    pub(crate) fabric: Option<Fabric>,
    /// Everything else that NVML has of the GPU. A fact that is absent is not supported; a failure is its code.
    #[serde(default)]
    pub(crate) facts: GpuFacts,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fabric {
    #[serde(deserialize_with = "state")]
    pub(crate) state: u8,
    #[serde(default)]
    pub(crate) status: u32,
    #[serde(default, deserialize_with = "uuid")]
    pub(crate) cluster_uuid: [u8; 16],
    #[serde(default)]
    pub(crate) clique_id: u32,
    #[serde(default)]
    pub(crate) health_mask: u32,
    #[serde(default)]
    pub(crate) health_summary: u8,
}

/// The names of a call in the file, the most special first: `symbol@index#n` for the n-th call of this process,
/// `symbol@index`, `symbol#n`, `@index` for every call on the device, `symbol`.
pub(crate) struct CallNames {
    symbol: &'static str,
    names: Vec<String>,
}

const FILE: &str = "nvml-mock.json";

/// The file to which calls are recorded, if it exists.
const CALLS: &str = "nvml-mock.calls";

/// The configuration that was read last, with the file's device, inode and change time. Scripts and tests replace
/// the file by a rename.
static READ: Mutex<Option<(Identity, Arc<Config>)>> = Mutex::new(None);

type Identity = (u64, u64, i64, i64);

/// The calls of this process, by `symbol@index`.
static CALLS_MADE: Mutex<BTreeMap<String, u32>> = Mutex::new(BTreeMap::new());

fn newest_cuda() -> i32 {
    13000
}

/// XIDs, ECC errors and changes of the MIG configuration.
fn usual_events() -> u64 {
    0x10b
}

fn newest_fabric_info() -> u32 {
    3
}

// === impl Config ===

impl Config {
    /// Reads the file; `None` if it is missing or malformed.
    pub(crate) fn read() -> Option<Arc<Self>> {
        let path = path()?;
        let file = fs::metadata(&path).ok()?;
        let identity = (file.dev(), file.ino(), file.ctime(), file.ctime_nsec());
        let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, config)) = read.as_ref().filter(|it| it.0 == identity) {
            return Some(Arc::clone(config));
        }
        let config = Arc::new(Self::parse(&path)?);
        *read = Some((identity, Arc::clone(&config)));
        Some(config)
    }

    fn parse(path: &Path) -> Option<Self> {
        let mut config: Self = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        if let Some(file) = &config.inventory {
            let file = fs::read(path.with_file_name(file)).ok()?;
            config.load(serde_json::from_slice(&file).ok()?);
        }
        Some(config)
    }

    fn load(&mut self, inventory: Inventory) {
        let Inventory { driver, gpus, .. } = inventory;
        if let Some(version) = driver.nvml.known() {
            self.driver_version.clone_from(version);
        }
        if let Some(cuda) = driver.cuda.known() {
            self.cuda_version = i32::try_from(*cuda).unwrap_or(0);
        }
        let mut enumerated: Vec<_> = gpus
            .into_iter()
            .filter(|gpu| gpu.index.known().is_some())
            .collect();
        enumerated.sort_by_key(|gpu| gpu.index.known().copied());
        let device = |facts: GpuFacts| Device {
            name: facts.name.known().cloned().unwrap_or_default(),
            uuid: facts.uuid.known().cloned().unwrap_or_default(),
            fabric: None,
            facts,
        };
        self.devices = enumerated.into_iter().map(device).collect();
    }

    /// Appends the call to the file of calls, if a test has created it.
    pub(crate) fn record(names: &CallNames) {
        let file =
            beside(CALLS).and_then(|path| fs::OpenOptions::new().append(true).open(path).ok());
        if let Some(mut file) = file {
            // A test that counts calls notices a missing one.
            let _ = writeln!(file, "{}", names.symbol);
        }
    }

    pub(crate) fn hangs(&self, names: &CallNames) -> bool {
        self.hang.iter().any(|name| names.include(name))
    }

    pub(crate) fn aborts(&self, names: &CallNames) -> bool {
        self.abort.iter().any(|name| names.include(name))
    }

    pub(crate) fn delay_ms(&self, names: &CallNames) -> u64 {
        names.look_up(&self.delay_ms).unwrap_or(0)
    }

    pub(crate) fn misbehaviour(&self, names: &CallNames) -> Option<Misbehaviour> {
        names.look_up(&self.misbehaves)
    }

    pub(crate) fn error(&self, names: &CallNames) -> Option<u32> {
        names.look_up(&self.errors)
    }
}

// === impl CallNames ===

impl CallNames {
    /// Counts the call.
    pub(crate) fn new(symbol: &'static str, device: Option<usize>) -> Self {
        let device = device.map(|index| format!("@{index}")).unwrap_or_default();
        let call = format!("{symbol}{device}");
        let mut calls = CALLS_MADE.lock().unwrap_or_else(PoisonError::into_inner);
        let count = calls.entry(call.clone()).or_default();
        *count += 1;
        let names = vec![
            format!("{call}#{count}"),
            call,
            format!("{symbol}#{count}"),
            device,
            symbol.to_owned(),
        ];
        Self { symbol, names }
    }

    fn include(&self, name: &str) -> bool {
        self.names.iter().any(|it| it == name)
    }

    fn look_up<T: Copy>(&self, map: &HashMap<String, T>) -> Option<T> {
        self.names.iter().find_map(|name| map.get(name)).copied()
    }
}

/// The file with this name beside the configuration.
pub(crate) fn beside(name: &str) -> Option<PathBuf> {
    Some(path()?.with_file_name(name))
}

fn path() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("NVML_MOCK_CONFIG") {
        return Some(path.into());
    }
    let library = fs::canonicalize(own_file()?).ok()?;
    Some(library.parent()?.join(FILE))
}

/// The file from which this library was loaded.
fn own_file() -> Option<PathBuf> {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    let inside: *const c_void = (own_file as fn() -> Option<PathBuf> as *const ()).cast();
    // SAFETY: the address is one of this library's own functions, and `info`
    // is valid for writing.
    let found = unsafe { libc::dladdr(inside, &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: on success dladdr points `dli_fname` at a C string that lives as
    // long as the library is loaded, which it is while its code runs.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(OsStr::from_bytes(name.to_bytes()).into())
}

/// Parses a state: its name or, for unknown ones, its number.
fn state<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum State {
        Name(String),
        Number(u8),
    }
    match State::deserialize(deserializer)? {
        State::Number(number) => Ok(number),
        State::Name(name) => match name.as_str() {
            "not-supported" => Ok(0),
            "not-started" => Ok(1),
            "in-progress" => Ok(2),
            "completed" => Ok(3),
            _ => Err(de::Error::custom("unknown fabric state")),
        },
    }
}

/// Parses 32 hexadecimal digits, with dashes anywhere.
fn uuid<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 16], D::Error> {
    let text = String::deserialize(deserializer)?;
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let number = u128::from_str_radix(&digits, 16).map_err(de::Error::custom)?;
    if digits.len() != 32 {
        return Err(de::Error::custom("a UUID has 32 digits"));
    }
    Ok(number.to_be_bytes())
}
