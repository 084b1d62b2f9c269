//! Configurations in TOML.

use toml::{Table, Value};

use crate::files::HostFiles;

/// The file's content; `None` if it does not exist. The error is for a finding,
/// and does not quote the file.
pub(super) fn read(files: &HostFiles, path: &str) -> Result<Option<Table>, String> {
    let text = files
        .read_text(path)
        .map_err(|error| format!("cannot read {path}: {error}"))?;
    text.map(|text| text.parse::<Table>())
        .transpose()
        // Its text would show the line, which may be a password's.
        .map_err(|error| format!("{path} is not TOML: {}", error.message()))
}

/// An array of strings.
pub(super) fn strings(value: &Value) -> Option<Vec<String>> {
    let items = value.as_array()?.iter().filter_map(Value::as_str);
    Some(items.map(str::to_owned).collect())
}
