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

/// The array of strings at a key; `None` if there is nothing. The error is for a
/// finding.
pub(super) fn string_list(table: &Table, key: &str) -> Result<Option<Vec<String>>, String> {
    let Some(value) = table.get(key) else {
        return Ok(None);
    };
    let items = value
        .as_array()
        .map(|items| items.iter().map(Value::as_str));
    let strings = items.and_then(|items| items.map(|it| it.map(str::to_owned)).collect());
    strings
        .map(Some)
        .ok_or_else(|| format!("{key} is no list of strings"))
}

/// An array of strings.
pub(super) fn strings(value: &Value) -> Option<Vec<String>> {
    let items = value.as_array()?.iter().filter_map(Value::as_str);
    Some(items.map(str::to_owned).collect())
}
