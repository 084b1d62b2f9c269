//! The file that says what the "driver" is like.

use std::collections::HashMap;
use std::ffi::{CStr, OsStr, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer, de};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) driver_version: String,
    #[serde(default = "newest_fabric_info")]
    pub(crate) fabric_info_version: u32,
    #[serde(default)]
    pub(crate) devices: Vec<Device>,
    #[serde(default)]
    errors: HashMap<String, u32>,
    #[serde(default)]
    delay_ms: HashMap<String, u64>,
    #[serde(default)]
    hang: Vec<String>,
    /// What is said to be there, if not the number of devices.
    pub(crate) device_count: Option<u32>,
    #[serde(default)]
    misbehaves: HashMap<String, Misbehaviour>,
}

/// Success, returned by a call that did not do what it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Misbehaviour {
    /// Nothing is written.
    WritesNothing,
    /// All that may be written is, with 0xff.
    Garbage,
    /// What should be written is, and 256 bytes behind the caller's buffer.
    Overrun,
    /// Text fills its buffer; there is no NUL.
    Unterminated,
    /// Text is not UTF-8.
    NotUtf8,
    /// Text is a line break.
    LineBreak,
    /// A struct is written as of version 2, whatever was asked for.
    IgnoresVersion,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) uuid: String,
    pub(crate) fabric: Option<Fabric>,
}

#[derive(Debug, Deserialize)]
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

const FILE: &str = "nvml-mock.json";

fn newest_fabric_info() -> u32 {
    3
}

// === impl Config ===

impl Config {
    /// What the file says now; `None` if it does not say anything sensible.
    pub(crate) fn read() -> Option<Self> {
        let bytes = fs::read(path()?).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    pub(crate) fn hangs(&self, names: &Names) -> bool {
        self.hang.iter().any(|it| names.include(it))
    }

    pub(crate) fn delay_ms(&self, names: &Names) -> u64 {
        names.pick(&self.delay_ms).unwrap_or(0)
    }

    pub(crate) fn misbehaviour(&self, names: &Names) -> Option<Misbehaviour> {
        names.pick(&self.misbehaves)
    }

    pub(crate) fn error(&self, names: &Names) -> Option<u32> {
        names.pick(&self.errors)
    }
}

/// The names under which the file may speak of a call: `symbol@index`, `symbol`.
pub(crate) struct Names {
    symbol: &'static str,
    indexed: Option<String>,
}

impl Names {
    pub(crate) fn new(symbol: &'static str, device: Option<usize>) -> Self {
        Self {
            symbol,
            indexed: device.map(|index| format!("{symbol}@{index}")),
        }
    }

    fn include(&self, name: &str) -> bool {
        name == self.symbol || Some(name) == self.indexed.as_deref()
    }

    fn pick<T: Copy>(&self, map: &HashMap<String, T>) -> Option<T> {
        let indexed = self.indexed.as_ref().and_then(|name| map.get(name));
        indexed.or_else(|| map.get(self.symbol)).copied()
    }
}

fn path() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("NVML_MOCK_CONFIG") {
        return Some(path.into());
    }
    let library = fs::canonicalize(own_file()?).ok()?;
    Some(library.parent()?.join(FILE))
}

/// The file that this library was loaded from.
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

/// A state by its name or, for those that do not exist, its number.
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

/// 32 hexadecimal digits, dashes anywhere.
fn uuid<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 16], D::Error> {
    let text = String::deserialize(deserializer)?;
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    let number = u128::from_str_radix(&digits, 16).map_err(de::Error::custom)?;
    if digits.len() != 32 {
        return Err(de::Error::custom("a UUID has 32 digits"));
    }
    Ok(number.to_be_bytes())
}
