//! What counts in the files of a configuration, by the rules of a release.
//!
//! `mergeConfig`, `ValidateVersion` and `migrations` beside `LoadConfig`
//! (see `files`), `configMigration` of `plugins/cri/runtime/plugin.go` (2.x) and the
//! loop that calls it: in `cmd/containerd/server/server.go` until 2.2, in `LoadConfig`
//! since 2.3.

use toml::{Table, Value};

use super::disabled::{Disabled, disabled};
use super::files::ConfigFile;
use super::handler::default_handler;
use super::layer::{Counted, Layer, Place, RUNTIME, SERVICE, plugin_of_1};
use super::release::Rules;
use crate::facts::runtimes::handlers::Configured;
use crate::facts::runtimes::toml_file::string_list;

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
    /// What it starts containers with by default, if a program is named for that.
    pub(super) handler: Option<Configured>,
}

/// What the files of the configuration `config` come to. The error says why
/// containerd does not start.
pub(super) fn decide(config: &str, files: &[ConfigFile], rules: Rules) -> Result<Settings, String> {
    let layers = files.iter().map(Layer::new);
    let layers = layers.collect::<Result<Vec<_>, _>>()?;
    let version = version(&layers, rules);
    if version > rules.newest_version() {
        return Err(format!(
            "{config} is of version {version}, and this release reads up to {}",
            rules.newest_version()
        ));
    }
    if let (Rules::V2_3 { strict: true }, Some(newer)) = (rules, newer_than_first(&layers)) {
        return Err(format!(
            "{} is of version {}, newer than {config} that imports it",
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
        cdi: cdi.unwrap_or_else(|| rules.cdi_by_default()),
        cdi_place: place.unwrap_or_else(|| default_place(config, &layers, &counted, rules)),
        in_vain: in_vain.map(|(place, _)| place),
        spec_dirs,
        disabled,
        handler: default_handler(&counted),
    })
}

/// The version of the configuration as a whole.
fn version(layers: &[Layer<'_>], rules: Rules) -> i64 {
    let mut written = layers.iter().map(|layer| layer.version);
    match rules {
        // A file that says none leaves what the one before said.
        Rules::V1 { .. } => written.rfind(|it| *it > 0).unwrap_or(1),
        // Version 1 becomes that of the files before.
        Rules::V2_0 => written.rfind(|it| *it > 1).unwrap_or(3),
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
        (Rules::V1 { .. }, Some(_)) => {
            let file = counted.last().map_or(config, |table| table.path);
            (file, plugin_of_1(version(layers, rules)))
        }
        // A file that is yet to be written is better not of version 1.
        (Rules::V1 { .. }, None) | (_, Some(2)) => (config, SERVICE),
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
    let value = read(table, key).map_err(|error| format!("{path}: {error}"))?;
    Ok(value.map(|value| (value, place)))
}

fn boolean(table: &Table, key: &str) -> Result<Option<bool>, String> {
    match table.get(key) {
        None => Ok(None),
        Some(Value::Boolean(value)) => Ok(Some(*value)),
        Some(_) => Err(format!("{key} is neither true nor false")),
    }
}
