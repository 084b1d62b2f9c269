//! The program of the default runtime handler.
//!
//! `default_runtime_name` and `runtimes` of `ContainerdConfig`, and `BinaryName` of the
//! options of `io.containerd.runc.v2`, in `pkg/cri/config/config.go` (1.7) and
//! `internal/cri/config/config.go` (2.x), which also refuse a default that is not defined
//! (`ValidatePluginConfig`, `ValidateRuntimeConfig`): then the CRI plugin is not loaded.

use toml::{Table, Value};

use super::layer::Counted;
use crate::facts::runtimes::handlers::Configured;

/// The handler that containerd itself defines.
const OWN: &str = "runc";
/// Tables of 1.x that define a handler of another name.
const OLDER: [&str; 2] = ["default_runtime", "untrusted_workload_runtime"];

/// `None`, if no program is named: then it is runc, from a place that containerd knows.
/// Of several tables, the last that has a key decides.
pub(super) fn default_handler(counted: &[Counted<'_>]) -> Option<Configured> {
    let mut tables = counted.iter().rev();
    let default = ["containerd", "default_runtime_name"];
    let (by, name) = tables.find_map(|it| Some((it, text(it.table, &default)?)))?;
    let is_defined = |it: &Counted<'_>| {
        let has_older = OLDER.iter().any(|key| has(it.table, &["containerd", key]));
        has_older || has(it.table, &["containerd", "runtimes", name])
    };
    // An empty name is another error, and none that an administrator makes.
    if !name.is_empty() && name != OWN && !counted.iter().any(is_defined) {
        return Some(Configured::Undefined {
            name: name.to_owned(),
            file: by.path.to_owned(),
        });
    }
    let handler = ["containerd", "runtimes", name];
    let of_handler = |keys: &[&str]| {
        let path: Vec<&str> = handler.iter().chain(keys).copied().collect();
        let mut tables = counted.iter().rev();
        tables.find_map(|it| Some((it, text(it.table, &path)?.to_owned())))
    };
    // Other shims have options of their own.
    let is_runc = of_handler(&["runtime_type"]).is_none_or(|(_, kind)| kind.contains(".runc."));
    let (from, program) = of_handler(&["options", "BinaryName"]).filter(|_| is_runc)?;
    (!program.is_empty()).then(|| Configured::Program {
        name: name.to_owned(),
        program,
        file: from.path.to_owned(),
        setting: format!(
            "BinaryName in [plugins.\"{}\".containerd.runtimes.{name}.options]",
            from.plugin
        ),
    })
}

fn text<'a>(table: &'a Table, path: &[&str]) -> Option<&'a str> {
    value(table, path).and_then(Value::as_str)
}

fn has(table: &Table, path: &[&str]) -> bool {
    value(table, path).is_some()
}

fn value<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (last, tables) = path.split_last()?;
    let mut inner = table;
    for name in tables {
        inner = inner.get(*name)?.as_table()?;
    }
    inner.get(*last)
}
