//! What arguments of several commands have in common.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::builder::{PathBufValueParser, TypedValueParser};
use imex_cdi::NameError;

/// The file that `-` stands for.
pub(crate) const STDIN: &str = "/dev/stdin";

/// What every command's help ends with.
pub(super) const EXIT_CODES: &str = "\
Exit codes: 0 nothing is wrong, 1 something is (see the output), 2 wrong usage,
3 a file cannot be read or written, 4 a CDI name cannot be resolved.";

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

/// A CDI name, or why it is not valid and what to do about it.
pub(super) fn cdi_name<T: FromStr<Err = NameError>>(text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|error: NameError| format!("{error}; {}", error.hint()))
}
