//! The files of a configuration as tables of plugins.

use toml::{Table, Value};

use super::files::ConfigFile;
use crate::facts::runtimes::toml_file::string_list;

/// The plugin that has the settings: from 2.0 on; in 1.x; in 1.x, in files of
/// version 1.
pub(super) const RUNTIME: &str = "io.containerd.cri.v1.runtime";
pub(super) const SERVICE: &str = "io.containerd.grpc.v1.cri";
pub(super) const SHORT: &str = "cri";
const TABLES: [&str; 3] = [SHORT, SERVICE, RUNTIME];

/// A plugin's table in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: String,
    pub(super) plugin: &'static str,
}

/// A file with the version that it says it is of.
pub(super) struct Layer<'a> {
    pub(super) path: &'a str,
    table: &'a Table,
    /// 0 if it says none, which mostly means 1.
    pub(super) version: i64,
}

/// A table that counts.
pub(super) struct Counted<'a> {
    pub(super) path: &'a str,
    pub(super) plugin: &'static str,
    pub(super) table: &'a Table,
}

/// Versions other than 1 have long names.
pub(super) fn plugin_of_1(version: i64) -> &'static str {
    if version == 1 { SHORT } else { SERVICE }
}

// === impl Layer ===

impl<'a> Layer<'a> {
    pub(super) fn new(file: &'a ConfigFile) -> Result<Self, String> {
        let (path, table) = (file.path.as_str(), &file.table);
        let version = match table.get("version") {
            None => 0,
            Some(Value::Integer(version)) => *version,
            Some(_) => {
                return Err(format!("{path}: version is no number"));
            }
        };
        Ok(Self {
            path,
            table,
            version,
        })
    }

    pub(super) fn is_of_1(&self) -> bool {
        self.version < 2
    }

    pub(super) fn plugins(&self) -> Option<&'a Table> {
        self.table.get("plugins")?.as_table()
    }

    pub(super) fn table(&self, plugin: &'static str) -> Option<Counted<'a>> {
        let table = self.plugins()?.get(plugin)?.as_table()?;
        Some(Counted {
            path: self.path,
            plugin,
            table,
        })
    }

    /// Those of 1.x, as 2.x takes them over.
    pub(super) fn older_tables(&self) -> Vec<Counted<'a>> {
        let short = self.table(SHORT).filter(|_| self.is_of_1());
        short.into_iter().chain(self.table(SERVICE)).collect()
    }

    pub(super) fn tables(&self) -> impl Iterator<Item = (Place, &'a Table)> {
        let file = self.path.to_owned();
        let found = TABLES.iter().filter_map(|plugin| self.table(plugin));
        found.map(move |it| {
            let (file, plugin) = (file.clone(), it.plugin);
            (Place { file, plugin }, it.table)
        })
    }

    pub(super) fn list(&self, key: &str) -> Result<Vec<String>, String> {
        let found = string_list(self.table, key);
        found
            .map(Option::unwrap_or_default)
            .map_err(|error| format!("{}: {error}", self.path))
    }
}
