//! What counts in the files of a configuration, by the rules of a release.
//!
//! `mergeConfig`, `ValidateV2`, `ValidateVersion` and `migrations` beside `LoadConfig`
//! (see `files`), `configMigration` of `plugins/cri/runtime/plugin.go` (2.x) and the
//! loop that calls it: in `cmd/containerd/server/server.go` until 2.2, in `LoadConfig`
//! since 2.3.

use toml::{Table, Value};

use super::files::ConfigFile;
use super::release::Rules;
use crate::facts::runtimes::toml_file::string_list;

/// The plugin that has the settings: from 2.0 on; in 1.x; in 1.x, in files of
/// version 1.
const RUNTIME: &str = "io.containerd.cri.v1.runtime";
const SERVICE: &str = "io.containerd.grpc.v1.cri";
const SHORT: &str = "cri";
const TABLES: [&str; 3] = [SHORT, SERVICE, RUNTIME];

/// Without one of these, 2.x does not serve kubelet (`plugins/cri/cri.go`).
const NEEDED_BY_2: [&str; 3] = [SERVICE, RUNTIME, IMAGES];
/// As [`NEEDED_BY_2`], in a file of version 1.
const NEEDED_BY_2_IN_1: [&str; 4] = [SHORT, SERVICE, RUNTIME, IMAGES];
const IMAGES: &str = "io.containerd.cri.v1.images";

/// What a configuration comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) cdi: bool,
    /// Where CDI is or can be turned on or off.
    pub(super) cdi_place: Place,
    /// What turns CDI on, and does not count.
    pub(super) in_vain: Option<Place>,
    pub(super) spec_dirs: Option<(Vec<String>, Place)>,
    /// What keeps it from serving kubelet.
    pub(super) disabled: Option<Disabled>,
}

/// A plugin's table in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: String,
    pub(super) plugin: &'static str,
}

/// A name in `disabled_plugins` of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Disabled {
    pub(super) file: String,
    pub(super) name: String,
}

/// A file with the version that it says it is of.
struct Layer<'a> {
    path: &'a str,
    table: &'a Table,
    /// 0 if it says none, which mostly means 1.
    version: i64,
}

/// A table that counts.
struct Counted<'a> {
    path: &'a str,
    plugin: &'static str,
    table: &'a Table,
}

/// What the files of the configuration `config` come to. The error is for a finding:
/// containerd does not start.
pub(super) fn decide(config: &str, files: &[ConfigFile], rules: Rules) -> Result<Settings, String> {
    let layers = files.iter().map(Layer::new);
    let layers = layers.collect::<Result<Vec<_>, _>>()?;
    let version = version(&layers, rules);
    if version > rules.newest_version() {
        return Err(format!(
            "{config} is of version {version}, and this release reads up to {}: containerd does not start",
            rules.newest_version()
        ));
    }
    if let (Rules::V2_3 { strict: true }, Some(newer)) = (rules, newer_than_first(&layers)) {
        return Err(format!(
            "{} is of version {}, newer than {config} that imports it: containerd does not start",
            newer.path, newer.version
        ));
    }
    let disabled = disabled(&layers, rules, version)?;
    let counted = counted(&layers, rules, version);
    let enabled = match rules {
        Rules::V2_4 => None,
        _ => last(&counted, "enable_cdi", boolean)?,
    };
    let spec_dirs = last(&counted, "cdi_spec_dirs", string_list)?;
    let in_vain = layers.iter().flat_map(Layer::tables).find(|(_, table)| {
        let counts = counted.iter().any(|it| std::ptr::eq(it.table, *table));
        !counts && boolean(table, "enable_cdi") == Ok(Some(true))
    });
    let (cdi, place) = enabled.unzip();
    Ok(Settings {
        cdi: cdi.unwrap_or(rules.cdi_by_default()),
        cdi_place: place.unwrap_or_else(|| default_place(config, &layers, &counted, rules)),
        in_vain: in_vain.map(|(place, _)| place),
        spec_dirs,
        disabled,
    })
}

/// The version of the configuration as a whole.
fn version(layers: &[Layer<'_>], rules: Rules) -> i64 {
    let mut written = layers.iter().map(|layer| layer.version);
    match rules {
        // A file that says none leaves what the one before said.
        Rules::V1 { .. } => written.filter(|it| *it > 0).next_back().unwrap_or(1),
        // Version 1 becomes that of the files before.
        Rules::V2_0 => written.filter(|it| *it > 1).next_back().unwrap_or(3),
        Rules::V2_3 { .. } | Rules::V2_4 => written.next_back().unwrap_or(4).max(4),
    }
}

/// The first that says its version sets it for all.
fn newer_than_first<'a, 'b>(layers: &'b [Layer<'a>]) -> Option<&'b Layer<'a>> {
    let first = layers.iter().find(|it| it.version > 0)?;
    layers.iter().find(|it| it.version > first.version)
}

/// The tables that count, the one that decides last.
fn counted<'a>(layers: &[Layer<'a>], rules: Rules, version: i64) -> Vec<Counted<'a>> {
    let of = |plugin| layers.iter().filter_map(move |layer| layer.table(plugin));
    match rules {
        Rules::V1 { .. } => of(plugin_of_1(version)).next_back().into_iter().collect(),
        Rules::V2_0 if version < 3 => {
            let old = layers.iter().flat_map(Layer::older_tables);
            old.chain(of(RUNTIME)).collect()
        }
        Rules::V2_0 => of(RUNTIME).collect(),
        Rules::V2_3 { .. } | Rules::V2_4 => layers
            .iter()
            .flat_map(|layer| {
                let old = layer.older_tables();
                let old = old.into_iter().filter(|_| layer.version < 4);
                old.chain(layer.table(RUNTIME))
            })
            .collect(),
    }
}

/// Versions other than 1 have long names.
fn plugin_of_1(version: i64) -> &'static str {
    if version == 1 { SHORT } else { SERVICE }
}

/// Where `enable_cdi` belongs, if it is not set: in 1.x in the table that replaces
/// all others.
fn default_place(
    config: &str,
    layers: &[Layer<'_>],
    counted: &[Counted<'_>],
    rules: Rules,
) -> Place {
    let first = layers.first().map(|layer| layer.version);
    let (file, plugin) = match (rules, first) {
        // A file that is yet to be written is better not of version 1.
        (Rules::V1 { .. }, None) => (config, SERVICE),
        (Rules::V1 { .. }, Some(_)) => {
            let file = counted.last().map_or(config, |table| table.path);
            (file, plugin_of_1(version(layers, rules)))
        }
        (_, Some(2)) => (config, SERVICE),
        _ => (config, RUNTIME),
    };
    Place {
        file: file.to_owned(),
        plugin,
    }
}

/// The value of a key in the last table that has it.
fn last<T>(
    counted: &[Counted<'_>],
    key: &str,
    read: fn(&Table, &str) -> Result<Option<T>, String>,
) -> Result<Option<(T, Place)>, String> {
    let with_key = counted.iter().rev().find(|it| it.table.contains_key(key));
    let Some(Counted {
        path,
        plugin,
        table,
    }) = with_key
    else {
        return Ok(None);
    };
    let place = Place {
        file: (*path).to_owned(),
        plugin,
    };
    let value = read(table, key)
        .map_err(|error| format!("{path}: {error}, and containerd does not start"))?;
    Ok(value.map(|value| (value, place)))
}

fn boolean(table: &Table, key: &str) -> Result<Option<bool>, String> {
    match table.get(key) {
        None => Ok(None),
        Some(Value::Boolean(value)) => Ok(Some(*value)),
        Some(_) => Err(format!("{key} is neither true nor false")),
    }
}

/// What disables CRI: the lists of all files count, and may have only such names as
/// their version has.
fn disabled(layers: &[Layer<'_>], rules: Rules, version: i64) -> Result<Option<Disabled>, String> {
    let mut found = None;
    for layer in layers {
        // 2.x gives long names to those in a file of version 1.
        let (version, needed): (_, &[&str]) = match rules {
            Rules::V1 { .. } => (version, &[plugin_of_1(version)]),
            _ if layer.is_of_1() => (1, &NEEDED_BY_2_IN_1),
            _ => (layer.version, &NEEDED_BY_2),
        };
        let listed = layer.list("disabled_plugins")?;
        let mut names = layer.list("required_plugins")?;
        names.extend(listed.iter().cloned());
        if matches!(rules, Rules::V1 { .. }) {
            names.extend(layer.plugins().into_iter().flat_map(Table::keys).cloned());
        }
        if let Some(short) = names.iter().find(|name| !is_long(name, rules))
            && version > 1
        {
            return Err(format!(
                "{} names the plugin {short:?}: in version {version} the names are long, as {SERVICE}, and containerd does not start",
                layer.path
            ));
        }
        let name = listed.into_iter().find(|it| needed.contains(&it.as_str()));
        let file = layer.path.to_owned();
        found = found.or(name.map(|name| Disabled { file, name }));
    }
    Ok(found)
}

fn is_long(name: &str, rules: Rules) -> bool {
    match rules {
        Rules::V1 { .. } => name.starts_with("io.containerd.") && name.split('.').nth(3).is_some(),
        _ => name.contains('.'),
    }
}

// === impl Layer ===

impl<'a> Layer<'a> {
    fn new(file: &'a ConfigFile) -> Result<Self, String> {
        let (path, table) = (file.path.as_str(), &file.table);
        let version = match table.get("version") {
            None => 0,
            Some(Value::Integer(version)) => *version,
            Some(_) => {
                return Err(format!(
                    "{path}: version is no number, and containerd does not start"
                ));
            }
        };
        Ok(Self {
            path,
            table,
            version,
        })
    }

    fn is_of_1(&self) -> bool {
        self.version < 2
    }

    fn plugins(&self) -> Option<&'a Table> {
        self.table.get("plugins")?.as_table()
    }

    fn table(&self, plugin: &'static str) -> Option<Counted<'a>> {
        let table = self.plugins()?.get(plugin)?.as_table()?;
        Some(Counted {
            path: self.path,
            plugin,
            table,
        })
    }

    /// Those of 1.x, as 2.x takes them over.
    fn older_tables(&self) -> Vec<Counted<'a>> {
        let short = self.table(SHORT).filter(|_| self.is_of_1());
        short.into_iter().chain(self.table(SERVICE)).collect()
    }

    fn tables(&self) -> impl Iterator<Item = (Place, &'a Table)> {
        let file = self.path.to_owned();
        let found = TABLES.iter().filter_map(|plugin| self.table(plugin));
        found.map(move |it| {
            let (file, plugin) = (file.clone(), it.plugin);
            (Place { file, plugin }, it.table)
        })
    }

    fn list(&self, key: &str) -> Result<Vec<String>, String> {
        let found = string_list(self.table, key);
        found
            .map(Option::unwrap_or_default)
            .map_err(|error| format!("{}: {error}, and containerd does not start", self.path))
    }
}
