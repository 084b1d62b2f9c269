//! The program of the default runtime handler.
//!
//! `default_runtime_name` and `runtimes` of `ContainerdConfig`, and `BinaryName` of the
//! options of `io.containerd.runc.v2`, in `pkg/cri/config/config.go` (1.7) and
//! `internal/cri/config/config.go` (2.x).

use toml::{Table, Value};

use super::layer::Counted;
use crate::facts::runtimes::handlers::Configured;

/// `None`, if no program is named: then it is runc, from a place that containerd knows.
/// Of several tables, the last that has a key decides.
pub(super) fn default_handler(counted: &[Counted<'_>]) -> Option<Configured> {
    let mut tables = counted.iter().rev();
    let name = tables.find_map(|it| text(it.table, &["containerd", "default_runtime_name"]))?;
    let handler = ["containerd", "runtimes", name];
    let of_handler = |keys: &[&str]| {
        let path: Vec<&str> = handler.iter().chain(keys).copied().collect();
        let mut tables = counted.iter().rev();
        tables.find_map(|it| Some((it, text(it.table, &path)?.to_owned())))
    };
    // Other shims have options of their own.
    let is_runc = of_handler(&["runtime_type"]).is_none_or(|(_, kind)| kind.contains(".runc."));
    let (from, program) = of_handler(&["options", "BinaryName"]).filter(|_| is_runc)?;
    (!program.is_empty()).then(|| Configured {
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
    let (last, tables) = path.split_last()?;
    let mut inner = table;
    for name in tables {
        inner = inner.get(*name)?.as_table()?;
    }
    inner.get(*last).and_then(Value::as_str)
}
