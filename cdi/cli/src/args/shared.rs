//! Arguments that several commands share.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::builder::{PathBufValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use host_doctor::{DEFAULT_KUBELET_ROOT, DraDriver};
use imex_cdi::{DEFAULT_DIRS, NameError};

/// The file for the argument `-`.
pub(crate) const STDIN: &str = "/dev/stdin";

/// The end of every command's help.
pub(super) const EXIT_CODES: &str = "\
Exit codes: 0 no problem found, 1 problems found (see the output), 2 wrong usage,
3 a file cannot be read or written, 4 a CDI name cannot be resolved.";

/// The format of a spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Json,
    Yaml,
}

/// Where a host's CDI specs are.
#[derive(Debug, Clone, Args)]
pub(crate) struct SpecDirs {
    /// A directory of CDI specs, lowest priority first.
    #[arg(long = "spec-dir", value_name = "DIR", default_values = DEFAULT_DIRS)]
    pub(crate) dirs: Vec<PathBuf>,
    /// The host's root directory: spec directories, /dev and /proc are looked up below
    /// this directory, and links are followed within it.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(crate) root: PathBuf,
}

/// Where kubelet keeps its state.
#[derive(Debug, Clone, Args)]
pub(crate) struct KubeletRoot {
    /// kubelet's root directory (the plugin's --kubelet-root), below --root.
    #[arg(
        long = "kubelet-root",
        value_name = "DIR",
        default_value = DEFAULT_KUBELET_ROOT
    )]
    pub(crate) path: PathBuf,
}

/// A file, or `-`.
pub(super) fn file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(|text| {
        if text == Path::new("-") {
            PathBuf::from(STDIN)
        } else {
            text
        }
    })
}

/// The name of a DRA driver.
pub(super) fn driver() -> impl TypedValueParser<Value = DraDriver> {
    let names = PossibleValuesParser::new(DraDriver::ALL.map(DraDriver::name));
    names.try_map(|name| DraDriver::from_name(&name).ok_or("the driver is unknown"))
}

/// Parses a CDI name; the error includes the hint.
pub(super) fn cdi_name<T: FromStr<Err = NameError>>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|error: NameError| format!("{error}; {}", error.hint()))
}
