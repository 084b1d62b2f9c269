//! Configurations in TOML.

use toml::{Table, Value};

use crate::files::HostFiles;

/// Why a configuration says nothing, for a finding. Neither quotes the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TomlError {
    /// It cannot be read here.
    Unreadable(String),
    /// It is not TOML.
    Malformed(String),
}

/// The file's content; `None` if it does not exist.
pub(super) fn read(files: &HostFiles, path: &str) -> Result<Option<Table>, TomlError> {
    let unreadable = |error| TomlError::Unreadable(format!("cannot read {path}: {error}"));
    let text = files.read_text(path).map_err(unreadable)?;
    text.map(|text| text.parse::<Table>())
        .transpose()
        // Its text would show the line, which may be a password's.
        .map_err(|error| TomlError::Malformed(format!("{path} is not TOML: {}", error.message())))
}

/// An array of strings.
pub(super) fn strings(value: &Value) -> Option<Vec<String>> {
    let items = value.as_array()?.iter().filter_map(Value::as_str);
    Some(items.map(str::to_owned).collect())
}
